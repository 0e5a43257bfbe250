"""How complete windows were after their end, and how late events come."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta

from serving_layer.accuracy.lateness.event_times import SECOND, Clock, EventTimes

AFTER = (0, 1, 10, 60, 600, 3_600, 86_400)
LARGEST_KEYS = 5
LIMITS = (0, 1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800)


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
        f"count(*) FILTER (ends <= seen - {patience // timedelta(microseconds=1)})",
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
