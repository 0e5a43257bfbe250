"""The windows of a view: how they are cut into stored panes, and which windows a reader may ask for."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

from braid.define.durations import format_duration, parse_duration
from braid.errors import DefinitionError

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Fixed:
    """Windows of one size that start every so often; tumbling when the two are the same.

    Stored as panes of length `every`, or one day where that is longer, so that each event is in one pane.
    """

    size: timedelta
    every: timedelta

    def __post_init__(self) -> None:
        _check_lattice(self.every)
        if self.size > DAY:
            _check_lattice(self.size)
        if self.every > self.size:
            _refuse(
                self.every, f"windows of {_text(self.size)} would leave gaps; start one at least that often"
            )
        if self.size % self.every:
            _refuse(
                self.every,
                f"{_text(self.size)} cannot be divided into panes of it; "
                f"use every={_choices(_parts(self.size), self.every)}",
            )

    @property
    def kind(self) -> str:
        return "tumbling" if self.size == self.every else "sliding"

    @property
    def pane(self) -> timedelta:
        return min(self.every, DAY)

    def spec(self) -> dict[str, Any]:
        return {"window": "fixed", "size": self.size.total_seconds(), "every": self.every.total_seconds()}

    def state_spec(self) -> dict[str, Any]:
        return {"pane": self.pane.total_seconds()}

    def describe(self) -> str:
        if self.kind == "tumbling":
            return f"tumbling windows of {_text(self.size)}, stored in panes of {_text(self.pane)}"
        return (
            f"windows of {_text(self.size)} every {_text(self.every)}, stored in panes of {_text(self.pane)}"
        )

    def read_as(self, grain: str | timedelta | None) -> "Fixed":
        """The windows that a reader gets: these, or tumbling ones of a grain that panes add up to."""
        return self if grain is None else _of_panes(self.pane, grain)


@dataclass(frozen=True)
class AllTime:
    """One window without an end, stored by the day."""

    kind = "all_time"
    pane = DAY

    def spec(self) -> dict[str, Any]:
        return {"window": self.kind}

    def state_spec(self) -> dict[str, Any]:
        return {"pane": self.pane.total_seconds()}

    def describe(self) -> str:
        return "all time, stored in panes of 1 day"

    def read_as(self, grain: str | timedelta | None) -> "Fixed | AllTime":
        return self if grain is None else _of_panes(self.pane, grain)


@dataclass(frozen=True)
class Session:
    """Windows that last as long as no two events are further apart than the gap; stored as partial sessions."""

    gap: timedelta

    kind = "session"

    def __post_init__(self) -> None:
        if self.gap < SECOND:
            _refuse(self.gap, "the gap of a session is at least '1 second'")

    def spec(self) -> dict[str, Any]:
        return {"window": self.kind, "gap": self.gap.total_seconds()}

    def state_spec(self) -> dict[str, Any]:
        # Partial sessions were joined by this gap: with a smaller one they would have to be taken apart.
        return self.spec()

    def describe(self) -> str:
        return f"sessions that end after {_text(self.gap)} without an event, stored as partial sessions"

    def read_as(self, grain: str | timedelta | None) -> "Session":
        if grain is not None:
            raise DefinitionError(
                f"grain={_text(grain)!r} needs panes, and sessions have none: read them without a grain, "
                "or define a view with a tumbling window."
            )
        return self


Window = Fixed | Session | AllTime


def tumbling(size: str | timedelta) -> Fixed:
    """Windows side by side: tumbling("1 minute")."""
    length = parse_duration(size)
    return Fixed(length, length)


def sliding(size: str | timedelta, *, every: str | timedelta) -> Fixed:
    """Windows that overlap: sliding("5 minutes", every="1 minute")."""
    return Fixed(parse_duration(size), parse_duration(every))


def session(gap: str | timedelta) -> Session:
    """Windows of activity: session(gap="30 minutes")."""
    return Session(parse_duration(gap))


def all_time() -> AllTime:
    """One window for everything."""
    return AllTime()


def _of_panes(pane: timedelta, grain: str | timedelta) -> Fixed:
    length = parse_duration(grain)
    _check_lattice(length)
    if length % pane:
        fitting = [part for part in _parts(DAY) if not part % pane]
        _refuse(
            length, f"panes of {_text(pane)} do not add up to it; read with grain={_choices(fitting, length)}"
        )
    return Fixed(length, length)


def _check_lattice(length: timedelta) -> None:
    """Every length divides a day or is a number of days: windows then start at the same local times each day."""
    if length < SECOND:
        _refuse(length, "the shortest is '1 second'")
    if length > DAY and length % DAY:
        days = [length // DAY * DAY, (length // DAY + 1) * DAY]
        _refuse(length, f"beyond a day it must be whole days; use {_choices(days, length)}")
    if length <= DAY and DAY % length:
        _refuse(length, f"it does not divide a day; use {_choices(_parts(DAY), length)}")


def _parts(length: timedelta) -> list[timedelta]:
    """The lengths that divide both this one and a day, or are whole days that divide it."""
    seconds = int(length.total_seconds())
    small = [n * SECOND for n in range(1, min(seconds, 86_400) + 1) if not seconds % n and not 86_400 % n]
    return small + [n * DAY for n in range(2, length // DAY + 1) if not length % (n * DAY)]


def _choices(lengths: list[timedelta], wanted: timedelta) -> str:
    """The nearest one below and the nearest one above, as round as what was wanted where there are such."""
    unit = next(unit for unit in (DAY, HOUR, MINUTE, SECOND, timedelta.resolution) if not wanted % unit)
    offered = [length for length in lengths if not length % unit] or lengths
    below = [length for length in offered if length < wanted][-1:]
    above = [length for length in offered if length > wanted][:1]
    return " or ".join(repr(_text(length)) for length in below + above)


def _text(length: str | timedelta) -> str:
    return length if isinstance(length, str) else format_duration(length)


def _refuse(length: timedelta, reason: str) -> NoReturn:
    raise DefinitionError(f"a window cannot be made of {_text(length)!r}: {reason}.")
