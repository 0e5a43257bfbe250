"""When an alert fires, ends and is corrected: rules over small values, without tables, clocks or addresses."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from braid.define.view import View
from braid.define.windows import Fixed
from braid.states.calendar import is_wall_clock, pane_start

FiringChange = Literal["fired", "resolved", "corrected"]
MISSED, TOO_EARLY, NO_LONGER, OVER = "missed", "fired too early", "no longer true", "over"


class Spot(NamedTuple):
    """What fires: some keys in some window. Sessions and all time have no start that others follow."""

    keys: str
    start: datetime | None


@dataclass(frozen=True)
class Standing:
    """What was last said of a spot: whether it fires, whether that goes on, and whether it was final."""

    fires: bool
    is_open: bool


@dataclass(frozen=True)
class FiringEvent:
    """Something to be told: a spot fires from now on, or does not, and why."""

    spot: Spot
    change: FiringChange
    fires: bool
    reason: str = ""


def before(view: View, start: datetime) -> datetime:
    """The start of the window before."""
    assert isinstance(view.window, Fixed)
    return pane_start(start - timedelta.resolution, view.window.every, view.source.zone)


def after(view: View, start: datetime) -> datetime:
    """The start of the next window; clocks change by an hour at most while a window of wall-clock time goes on."""
    assert isinstance(view.window, Fixed)
    every = view.window.every
    slack = timedelta(hours=1) if is_wall_clock(every) else timedelta(0)
    return pane_start(start + every + slack, every, view.source.zone)


def fires_at(spot: Spot, holds: Callable[[Spot], bool], windows: int, view: View) -> bool:
    """Whether the condition holds here and in the windows before, as many as are asked for."""
    for _ in range(windows):
        if not holds(spot):
            return False
        if windows > 1 and spot.start is not None:
            spot = Spot(spot.keys, before(view, spot.start))
    return True


def touched_by(spots: Iterable[Spot], windows: int, view: View) -> Iterator[Spot]:
    """The spots whose verdict can depend on these: they themselves, and some windows after each."""
    for spot in spots:
        yield spot
        start = spot.start
        for _ in range(windows - 1):
            if start is not None:
                start = after(view, start)
                yield Spot(spot.keys, start)


def verdict(spot: Spot, fires: bool, known: Standing | None, was_final: bool) -> FiringEvent | None:
    """What is to be told of a spot whose numbers may have changed; None when nothing is new.

    A verdict on a window that was final before is corrected: it was missed, or came too early.
    """
    fired = known is not None and known.fires
    if fires == fired:
        return None
    if fires:
        return FiringEvent(spot, "corrected", True, MISSED) if was_final else FiringEvent(spot, "fired", True)
    return (
        FiringEvent(spot, "corrected", False, TOO_EARLY)
        if was_final
        else FiringEvent(spot, "resolved", False, NO_LONGER)
    )


def over(
    view: View, standing: Mapping[Spot, Standing], ends: Mapping[Spot, datetime], until: datetime | None
) -> list[FiringEvent]:
    """Spots that fire in windows in a row that have come to their end: the next one is final and does not fire."""
    if until is None or not isinstance(view.window, Fixed):
        return []
    is_open = [
        (spot.start, spot)
        for spot, known in standing.items()
        if known.fires and known.is_open and spot.start is not None and spot in ends
    ]
    ended: set[Spot] = set()
    # The last first: a window is over when the row that it is in is.
    for start, spot in sorted(is_open, key=_by_start, reverse=True):
        following = Spot(spot.keys, after(view, start))
        known = standing.get(following)
        if known is not None and known.fires:
            is_over = not known.is_open or following in ended
        else:
            is_over = ends[spot] + view.window.every <= until
        if is_over:
            ended.add(spot)
    return [FiringEvent(spot, "resolved", True, OVER) for _, spot in is_open if spot in ended]


def _by_start(found: tuple[datetime, Spot]) -> datetime:
    return found[0]


def stands(event: FiringEvent) -> Standing:
    """What an event leaves behind. An alert that is over has fired all the same."""
    return Standing(event.fires, event.fires and event.reason != OVER)
