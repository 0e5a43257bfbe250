"""How complete windows were after their end, how late events come, and what other ways of computing would have lost."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta

from braid.define.durations import format_duration, percent, rounded_up
from braid.states.calendar import micros
from serving_layer.accuracy.lateness.event_times import SECOND, Clock, EventTimes

AFTER = (0, 1, 10, 60, 600, 3_600, 86_400)
LARGEST_KEYS = 5
LIMITS = (0, 1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800)

USUAL = timedelta(minutes=10)
KEPT = 0.999


@dataclass(frozen=True)
class CurvePoint:
    """The share of the events of windows that had come so long after the windows' ends.

    `served` is the share that could be read in the view then; None where the clock is not that of arrival.
    """

    after_seconds: int
    share: float
    served: float | None = None


@dataclass(frozen=True)
class Curve:
    """Completeness of one day's windows, of one key's, or of all."""

    name: str
    events: int
    points: tuple[CurvePoint, ...]

    def at(self, seconds: int) -> float:
        return next(point.share for point in self.points if point.after_seconds == seconds)


@dataclass(frozen=True)
class LatenessBar:
    """How many events came within so long (and not sooner); None is for what came even later."""

    within_seconds: int | None
    came: int
    behind: int


@dataclass(frozen=True)
class Lateness:
    """How late events are: by the clock, and behind the newest event before them, which is what a watermark sees."""

    median_seconds: float | None
    p90_seconds: float | None
    p99_seconds: float | None
    longest_seconds: float | None
    behind_median_seconds: float | None
    behind_p99_seconds: float | None
    behind_longest_seconds: float | None
    late_events: int
    bars: tuple[LatenessBar, ...]


@dataclass(frozen=True)
class Completeness:
    """How soon the windows of a view were whole, and by which clock."""

    clock: Clock
    all: Curve
    days: tuple[Curve, ...]
    keys: tuple[Curve, ...]


def completeness(times: EventTimes) -> Completeness:
    everything = _curves(times, "'all'")
    largest = _curves(times, "key", f"ORDER BY count(*) DESC, key LIMIT {LARGEST_KEYS}")
    return Completeness(
        times.clock,
        everything[0] if everything else Curve("all", 0, ()),
        tuple(_curves(times, "day::VARCHAR", "ORDER BY 1")),
        tuple(largest) if [curve.name for curve in largest] != [""] else (),
    )


def lateness(times: EventTimes, patience: timedelta) -> Lateness:
    """`patience` is how long the view waits before it calls a window final: what comes after that is late."""
    parts = [
        *(f"quantile_cont(came - t, {q}) / {SECOND}" for q in (0.5, 0.9, 0.99)),
        f"max(came - t) / {SECOND}",
        *(f"quantile_cont(greatest(seen - t, 0), {q}) / {SECOND}" for q in (0.5, 0.99)),
        f"max(greatest(seen - t, 0)) / {SECOND}",
        f"count(*) FILTER (ends <= seen - {micros(patience)})",
    ]
    *numbers, late = times.row(f"SELECT {', '.join(parts)} FROM event_times")
    names = [field.name for field in fields(Lateness) if field.name.endswith("_seconds")]
    seconds: dict[str, float | None] = dict(zip(names, numbers, strict=True))
    return Lateness(**seconds, late_events=late or 0, bars=_bars(times))


def _curves(times: EventTimes, by: str, rest: str = "") -> list[Curve]:
    came = [f"avg((came <= ends + {after * SECOND})::INT)" for after in AFTER]
    readable = [f"avg((served <= ends + {after * SECOND})::INT)" for after in AFTER]
    rows = times.rows(
        f"SELECT {by}, count(*), {', '.join(came + readable)} FROM event_times GROUP BY {by} {rest}"
    )
    return [Curve(name, events, _points(shares)) for name, events, *shares in rows]


def _points(shares: Sequence[float | None]) -> tuple[CurvePoint, ...]:
    came, readable = shares[: len(AFTER)], shares[len(AFTER) :]
    return tuple(
        CurvePoint(after, share or 0.0, served)
        for after, share, served in zip(AFTER, came, readable, strict=True)
    )


def _bars(times: EventTimes) -> tuple[LatenessBar, ...]:
    def counted(what: str) -> list[int]:
        bounds = [f"count(*) FILTER ({what} <= {limit * SECOND})" for limit in LIMITS]
        up_to = list(times.row(f"SELECT {', '.join(bounds)}, count(*) FROM event_times"))
        return [high - low for low, high in zip([0, *up_to], up_to, strict=False)]

    came, behind = counted("came - t"), counted("greatest(seen - t, 0)")
    return tuple(LatenessBar(*bar) for bar in zip((*LIMITS, None), came, behind, strict=True))


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
        lost=f"ends <= seen - {micros(delay)}",
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
