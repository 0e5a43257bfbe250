"""The naive twin: every measure and window over plain Python lists, written without looking at Braid."""

import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

Event = dict[str, Any]
Bounds = tuple[datetime, datetime]


def values(events: list[Event], column: str) -> list[Any]:
    return [e[column] for e in events if e[column] is not None]


def order(value: Any) -> Any:
    """NaN is the greatest number."""
    return (
        (math.isnan(value), 0.0 if math.isnan(value) else value + 0.0) if isinstance(value, float) else value
    )


def total(xs: list[Any]) -> Any:
    if not xs:
        return None
    if isinstance(xs[0], float):
        return math.fsum(xs) if all(map(math.isfinite, xs)) else sum(xs)
    return sum(map(Fraction, xs))


def average(xs: list[Any]) -> float | None:
    if not xs:
        return None
    if isinstance(xs[0], float):
        return total(xs) / len(xs)
    return float(sum(map(Fraction, xs)) / len(xs))


def deviation(xs: list[Any]) -> float | None:
    if len(xs) < 2:
        return None
    if not all(map(math.isfinite, xs)):
        return math.nan
    exact = [Fraction(x) for x in xs]
    centre = sum(exact) / len(exact)
    return math.sqrt(sum((x - centre) ** 2 for x in exact) / (len(exact) - 1))


def ranked(xs: list[Any], q: float) -> float | None:
    if not xs:
        return None
    return sorted(map(float, xs), key=order)[math.floor(q * (len(xs) - 1))]


TWINS: dict[str, Callable[..., Any]] = {
    "count": lambda events, column: len(events) if column is None else len(values(events, column)),
    "sum_": lambda events, column: total(values(events, column)),
    "min_": lambda events, column: min(values(events, column), key=order, default=None),
    "max_": lambda events, column: max(values(events, column), key=order, default=None),
    "mean": lambda events, column: average(values(events, column)),
    "stddev": lambda events, column: deviation(values(events, column)),
    "approx_distinct": lambda events, column: len({str(order(v)) for v in values(events, column)}),
    "quantile": lambda events, column, q: ranked(values(events, column), q),
}


def tolerance(kind: str, xs: list[Any], answer: float) -> float:
    """How far an answer may be from the twin's, by each measure's own statement."""
    if kind in ("count", "min_", "max_") or (kind == "sum_" and not isinstance(xs[0], float)):
        return 0.0
    if kind == "approx_distinct":
        # Five standard errors; a sketch of few values is exact.
        return 5 * 0.01625 * answer if answer > 350 else 0.0
    if kind == "quantile":
        return 0.01 * abs(answer) if abs(answer) >= 1e-300 else 1e-300
    size = sum(abs(float(x)) for x in xs)
    return 2.0**-52 * max(len(xs), 8) * (size + abs(answer))


# Windows: all instants are aware and in UTC.


def elapsed_windows(
    times: Iterable[datetime], size: timedelta, every: timedelta, zone: ZoneInfo
) -> dict[Bounds, Any]:
    """Windows of up to an hour's step: begin whenever a local clock, at the offset of the event, shows a multiple."""
    found: dict[Bounds, list[int]] = {}
    for i, time in enumerate(times):
        offset = time.astimezone(zone).utcoffset() or timedelta()
        since_midnight = (time + offset) - (time + offset).replace(hour=0, minute=0, second=0, microsecond=0)
        start = time - since_midnight % every
        while start + size > time:
            found.setdefault((start, start + size), []).append(i)
            start -= every
    return found


def calendar_windows(
    times: Iterable[datetime], size: timedelta, every: timedelta, zone: ZoneInfo
) -> dict[Bounds, Any]:
    """Windows of more than an hour's step: try every start on the wall from the Monday before the first event."""
    times = list(times)
    if not times:
        return {}
    walls = [time.astimezone(zone).replace(tzinfo=None) for time in times]
    start = datetime(1969, 12, 29)
    start += (min(walls) - size - start) // every * every
    found: dict[Bounds, list[int]] = {}
    while start <= max(walls):
        inside = [i for i, wall in enumerate(walls) if start <= wall < start + size]
        if inside:
            bounds = [moment.replace(tzinfo=zone).astimezone(UTC) for moment in (start, start + size)]
            found[bounds[0], bounds[1]] = inside
        start += every
    return found


def sessions(times: Iterable[datetime], gap: timedelta) -> dict[Bounds, Any]:
    """Walk the events in order; a longer pause than the gap begins a new session."""
    found: list[list[tuple[datetime, int]]] = []
    for time, i in sorted((time, i) for i, time in enumerate(times)):
        if found and time - found[-1][-1][0] <= gap:
            found[-1].append((time, i))
        else:
            found.append([(time, i)])
    return {(part[0][0], part[-1][0] + gap): [i for _, i in part] for part in found}
