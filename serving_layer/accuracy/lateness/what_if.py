"""What other ways to compute the same numbers would have made of the same events in the same order."""

from dataclasses import dataclass
from datetime import timedelta

from braid.define.durations import format_duration, percent, rounded_up
from serving_layer.accuracy.lateness.event_times import EventTimes

USUAL = timedelta(minutes=10)
KEPT = 0.999


@dataclass(frozen=True)
class Losses:
    """How wrong a way of computing would have been: events lost and counted twice, and the windows that are off."""

    name: str
    says: str
    events: int
    lost: int
    twice: int
    groups: int
    wrong_groups: int
    largest_error: float

    @property
    def share(self) -> float:
        return (self.lost + self.twice) / self.events if self.events else 0.0


@dataclass(frozen=True)
class WhatIf:
    """Beside each other on the same data; `advice` is the watermark that would have done."""

    classic_lambda: Losses
    watermark: Losses
    advice: str


def what_if(times: EventTimes, usual: timedelta = USUAL) -> WhatIf:
    dropping = watermark(times, usual)
    return WhatIf(classic_lambda(times), dropping, recommendation(times, dropping, usual))


def classic_lambda(times: EventTimes) -> Losses:
    """The batch has what came before midnight, the speed layer what happened after it.

    What happened before midnight and came after it is in neither, what came before it from a clock that is ahead is
    in both.
    """
    return _outcome(
        times,
        "classic Lambda",
        "a batch of what came before midnight, and a speed layer of what happened after it",
        lost="came >= dusk",
        twice="came < dawn",
    )


def watermark(times: EventTimes, delay: timedelta) -> Losses:
    """A stream that closes a window when an event so much later than its end has come, and drops what comes then."""
    return _outcome(
        times,
        f"a watermark of {format_duration(delay)}",
        "a stream that drops what comes after its window was closed",
        lost=f"ends <= seen - {_micros(delay)}",
        twice="false",
    )


def recommendation(times: EventTimes, usual: Losses, delay: timedelta) -> str:
    """ "a watermark of 12 minutes would have kept 99.9 %; the usual 10 minutes would have dropped 1,204 events." """
    if not times.events:
        return "There are no events to judge."
    (needed,) = times.row(f"SELECT quantile_disc(greatest(seen - ends, -1), {KEPT}) FROM event_times")
    enough = rounded_up(needed)
    kept = 1 - watermark(times, enough).share
    dropped = (
        f"would have dropped {usual.lost:,} event{'' if usual.lost == 1 else 's'} ({percent(usual.share)})"
        if usual.lost
        else "would have dropped nothing"
    )
    return (
        f"A watermark of {format_duration(enough)} would have kept {percent(kept)}; "
        f"the usual {format_duration(delay)} {dropped}."
    )


def _outcome(times: EventTimes, name: str, says: str, lost: str, twice: str) -> Losses:
    events, lost_events, counted_twice, groups, wrong, largest = times.row(f"""
        WITH groups AS (
            SELECT count(*) AS n, count(*) FILTER ({lost}) AS lost, count(*) FILTER ({twice}) AS twice
            FROM event_times GROUP BY grp
        )
        SELECT coalesce(sum(n), 0)::BIGINT, coalesce(sum(lost), 0)::BIGINT, coalesce(sum(twice), 0)::BIGINT,
               count(*), count(*) FILTER (lost <> twice), coalesce(max(abs(lost - twice) / n), 0)::DOUBLE
        FROM groups
    """)
    return Losses(name, says, events, lost_events, counted_twice, groups, wrong, largest)


def _micros(length: timedelta) -> int:
    return length // timedelta(microseconds=1)
