"""Answers: the rows that a request asks for, where their numbers come from, and both as plain data."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from braid.commits import TailCommit
from braid.deployment import Version
from braid.settings import Settings
from braid.states.arrow import INSTANT
from serving_layer.numbers import EVENT_COUNT, KNOWN, numbers
from serving_layer.reader import IN_TAIL, Snapshot, read
from serving_layer.request import Request, scope_of


@dataclass(frozen=True)
class Answer:
    """A page of rows (keys, window, measures, status), and how many there are without the limit."""

    version: Version
    rows: pa.Table
    total: int
    base_events: int
    tail_events: int
    through: Mapping[date, datetime]
    mark: TailCommit | None


def ask(settings: Settings, version: Version, request: Request) -> Answer:
    """Reads what the request needs, and answers it."""
    return answer(read(settings, version, scope_of(version.view, request)), request)


def answer(snapshot: Snapshot, request: Request) -> Answer:
    """The snapshot may hold more than the request asks for, and must hold all of it."""
    found = _within(numbers(snapshot, request.grain), request)
    in_tail, events = (pc.sum(found[name]).as_py() or 0 for name in (IN_TAIL, EVENT_COUNT))
    page = found.sort_by(list(request.order)) if request.order else found
    return Answer(
        snapshot.version,
        page.slice(request.offset, request.limit).drop_columns(list(KNOWN)),
        len(found),
        events - in_tail,
        in_tail,
        snapshot.through,
        snapshot.mark,
    )


def document(given: Answer) -> dict[str, Any]:
    """An answer as JSON can hold it.

    The events of the provenance are those behind all rows of the answer; one that is in several windows counts in each.
    """
    zone, mark = given.version.view.source.zone, given.mark
    return {
        "view": given.version.view.name,
        "version": given.version.number,
        "total": given.total,
        "rows": plain_rows(given.rows, zone),
        "provenance": {
            "base_through": list(_stretches(given.through, zone)),
            "tail_epoch": plain(mark and mark.epoch, zone),
            "complete": plain(mark and mark.complete, zone),
            "replaying": mark is not None and mark.replaying,
            "base_events": given.base_events,
            "tail_events": given.tail_events,
        },
    }


def plain_rows(rows: pa.Table, zone: ZoneInfo) -> list[dict[str, Any]]:
    return [{name: plain(value, zone) for name, value in row.items()} for row in rows.to_pylist()]


def plain(value: Any, zone: ZoneInfo) -> Any:
    """A value as JSON can hold it without loss; instants are shown in the source's zone with their offset."""
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(zone)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        # Whole numbers stay numbers; a fraction would become a float in most readers, and is exact as text.
        return int(value) if value == value.to_integral_value() and _scale(value) == 0 else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _within(found: pa.Table, request: Request) -> pa.Table:
    for bound, keeps in ((request.start, pc.greater_equal), (request.end, pc.less)):
        if bound is not None:
            found = found.filter(keeps(found["window_start"], pa.scalar(bound, INSTANT)))
    return found


def _stretches(through: Mapping[date, datetime], zone: ZoneInfo) -> Iterable[dict[str, str]]:
    """Days in a row that have the same cut, as one."""
    ordered = sorted(through.items())
    runs = groupby(enumerate(ordered), lambda at: (at[1][0] - timedelta(days=at[0]), at[1][1]))
    for (_, cut), run in runs:
        days = [day for _, (day, _) in run]
        yield {"first_day": str(days[0]), "last_day": str(days[-1]), "through": plain(cut, zone)}


def _scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0
