"""When events happen: how many in each hour of the days, in the source's time zone."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

# Requests in each hour of a local day, relative to each other: quiet before dawn, busiest after lunch.
HOURS = (38, 30, 24, 20, 18, 19, 25, 40, 62, 78, 86, 92, 96, 100, 99, 97, 90, 78, 66, 62, 60, 58, 54, 46)
WEEKEND = 0.6
_HOUR = 3600


class Hour(NamedTuple):
    """An hour of the run, half-open, with its events and how many the run has before it."""

    start_ms: int
    length_ms: int
    before: int
    events: int


def schedule(events: int, days: int, start: date, zone: ZoneInfo) -> list[Hour]:
    """Shares the events out over the hours; days with 23 or 25 hours have what their hours have."""
    midnights = [_midnight(start + timedelta(days=n), zone) for n in range(days + 1)]
    spans = [
        (begin, min(_HOUR, tomorrow - begin))
        for today, tomorrow in pairwise(midnights)
        for begin in range(today, tomorrow, _HOUR)
    ]
    weights = [_weight(datetime.fromtimestamp(begin, zone)) * length for begin, length in spans]
    total, passed, before, hours = sum(weights), 0, 0, []
    for (begin, length), weight in zip(spans, weights, strict=True):
        passed += weight
        # Rounding the running total, not each hour, makes the hours add up to exactly what was asked for.
        through = events * passed // total
        hours.append(Hour(begin * 1000, length * 1000, before, through - before))
        before = through
    return hours


def position_at(hours: Sequence[Hour], moment_ms: int) -> float:
    """How many events the run has, as planned, before this moment."""
    hour = hours[max(0, bisect_right(hours, moment_ms, key=lambda one: one.start_ms) - 1)]
    share = min(1.0, max(0.0, (moment_ms - hour.start_ms) / hour.length_ms))
    return hour.before + share * hour.events


def moment_at(hours: Sequence[Hour], position: float) -> int:
    """When the run has had, as planned, so many events; its end for more than it has."""
    hour = hours[max(0, bisect_right(hours, position, key=lambda one: one.before) - 1)]
    share = min(1.0, (position - hour.before) / hour.events) if hour.events else 1.0
    return hour.start_ms + int(share * hour.length_ms)


def end_ms(hours: Sequence[Hour]) -> int:
    return hours[-1].start_ms + hours[-1].length_ms


def _midnight(day: date, zone: ZoneInfo) -> int:
    return int(datetime.combine(day, time(), zone).timestamp())


def _weight(local: datetime) -> int:
    """A whole number, so that the shares do not depend on how a machine rounds."""
    return int(HOURS[local.hour] * (WEEKEND if local.weekday() >= 5 else 1) * 10)
