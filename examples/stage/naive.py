"""The naive answer: every window and number by loops over plain values, written without a look at how Braid does it."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

Event = dict[str, Any]
# (keys, and the start of the window where there is one) -> name of the measure -> number.
Answer = dict[tuple[Any, ...], dict[str, Any]]
Number = Callable[[list[Event]], Any]
Windows = Callable[[datetime], Iterable[tuple[datetime, ...]]]

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def answer(
    events: Iterable[Event], keys: Sequence[str], windows: Windows, measures: Mapping[str, Number]
) -> Answer:
    """Each event into every window that it is in; then each number from the list of its events."""
    groups: dict[tuple[Any, ...], list[Event]] = defaultdict(list)
    for event in events:
        for window in windows(event["time"]):
            groups[(*(event[key] for key in keys), *window)].append(event)
    return {group: _numbers(inside, measures) for group, inside in groups.items()}


def summed(rows: Answer, place: int, name: str) -> "Counter[Any]":
    """Part of the group -> the sum of a number over all rows that have it; `place` says which part."""
    found: Counter[Any] = Counter()
    for group, numbers in rows.items():
        found[group[place]] += numbers[name]
    return found


def all_time(_: datetime) -> Iterator[tuple[datetime, ...]]:
    yield ()


def sliding(size: timedelta, every: timedelta) -> Windows:
    def windows(time: datetime) -> Iterator[tuple[datetime, ...]]:
        start = time - (time - _BEGIN) % every
        while start + size > time:
            yield (start,)
            start -= every

    return windows


def tumbling(size: timedelta) -> Windows:
    return sliding(size, size)


def daily(zone: str) -> Windows:
    """From midnight to midnight where people live."""

    def windows(time: datetime) -> Iterator[tuple[datetime, ...]]:
        local = time.astimezone(ZoneInfo(zone))
        yield (local.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC),)

    return windows


def sessions(
    events: Iterable[Event], keys: Sequence[str], gap: timedelta, measures: Mapping[str, Number]
) -> Answer:
    """The events of each key in order; a longer pause than the gap begins a new session."""
    by_key: dict[tuple[Any, ...], list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event["time"]):
        by_key[tuple(event[key] for key in keys)].append(event)
    found: Answer = {}
    for key, ordered in by_key.items():
        begin = 0
        for here in range(1, len(ordered) + 1):
            if here == len(ordered) or ordered[here]["time"] - ordered[here - 1]["time"] > gap:
                found[(*key, ordered[begin]["time"])] = _numbers(ordered[begin:here], measures)
                begin = here
    return found


def total(column: str) -> Number:
    return _of(column, sum)


def least(column: str) -> Number:
    return _of(column, min)


def most(column: str) -> Number:
    return _of(column, max)


def average(column: str) -> Number:
    return _of(column, lambda values: math.fsum(values) / len(values))


def deviation(column: str) -> Number:
    """Of a sample: divided by one less than there are; one alone has none."""

    def number(values: list[Any]) -> float | None:
        centre = math.fsum(values) / len(values)
        squares = math.fsum((value - centre) ** 2 for value in values)
        return math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None

    return _of(column, number)


def different(column: str) -> Number:
    return lambda events: len({event[column] for event in events if event[column] is not None})


def at_rank(column: str, q: float) -> Number:
    """The value that a share of the others does not exceed."""
    return _of(column, lambda values: sorted(values)[math.floor(q * (len(values) - 1))])


def _of(column: str, number: Callable[[list[Any]], Any]) -> Number:
    """Of the values that are there; nothing where none is."""

    def known(events: list[Event]) -> Any:
        values = [event[column] for event in events if event[column] is not None]
        return number(values) if values else None

    return known


def _numbers(events: list[Event], measures: Mapping[str, Number]) -> dict[str, Any]:
    return {name: number(events) for name, number in measures.items()}
