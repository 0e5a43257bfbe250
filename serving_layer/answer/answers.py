"""Answers: the rows that a request asks for, where their numbers come from, and both as plain data."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.define.schema import double_quoted
from braid.define.windows import Window
from braid.deploy.versions import Version
from braid.merge.arrow import IN_TAIL, Snapshot
from braid.states.database import cursor
from braid.tables.commits import TailCommit
from braid.tables.view_tables import LATE
from serving_layer.answer.json_values import parts_of, plain, plain_rows
from serving_layer.answer.numbers import (
    EVENT_COUNT,
    KNOWN,
    STATUS,
    begun_in,
    final_until,
    numbers,
    totals,
)
from serving_layer.answer.request import (
    Ranking,
    Request,
    range_of,
    scope_of,
)
from serving_layer.answer.scope import Scope

RANK = "_rank"
# How much of a row the tail holds, for those who want to see it.
PARTS = (EVENT_COUNT, IN_TAIL)
STATUSES = ("final", "provisional", "revised")


class Reading(Protocol):
    """Where a version is read: from its tables, or from what is held of them in memory."""

    @property
    def version(self) -> Version: ...

    def windows(self, scope: Scope, window: Window) -> Snapshot:
        """What windows like these are made of."""

    def whole(self, scope: Scope) -> Snapshot:
        """What the scope holds, for numbers of all of it."""


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


def ask(reading: Reading, request: Request) -> Answer:
    """The rows of a request, with PARTS."""
    found, read = _found(reading, request)
    return _answer(read, found.sort_by(list(request.order)) if request.order else found, request)


def ask_top(reading: Reading, request: Request, ranking: Ranking) -> Answer:
    """The rows with the largest numbers, with their rank; no number is less than any."""
    if ranking.per == "window":
        found, read = _found(reading, request)
        return _answer(read, _ranked(found, ranking, "window_start"), request)
    read = reading.whole(range_of(reading.version.view, request))
    found = totals(read, request.start, request.end, request.keys(read.view))
    return _answer(read, _ranked(found, ranking), request)


def provenance(reading: Reading, request: Request) -> dict[str, Any]:
    """Where the numbers of a request come from: which side of the cut, how final, which version."""
    found, read = _found(reading, request)
    given = _answer(read, found, request)
    zone, events = read.view.source.zone, given.base_events + given.tail_events
    counts = {status: pc.sum(pc.equal(found[STATUS], status)).as_py() or 0 for status in STATUSES}
    return {
        "view": read.view.name,
        "version": read.version.number,
        "fingerprint": read.version.fingerprint,
        "mode": read.view.mode,
        "windows": counts,
        "base": {
            "events": given.base_events,
            "share": given.base_events / events if events else 0.0,
            "table_version": read.base_version,
            "cuts": list(_stretches(given.through, zone)),
        },
        "tail": {
            "events": given.tail_events,
            "share": given.tail_events / events if events else 0.0,
            "table_version": read.tail_version,
            "epoch": plain(read.mark and read.mark.epoch, zone),
            "complete": plain(read.mark and read.mark.complete, zone),
        },
        "watermark": plain(final_until(read.view, read.mark), zone),
        "late_events": pc.sum(found[LATE]).as_py() or 0,
        "replaying": read.mark is not None and read.mark.replaying,
    }


def json_document(given: Answer, parts: bool = False) -> bytes:
    """The text of `document`, made of some rows at a time."""
    zone, rows = given.version.view.source.zone, shown(given, parts)
    texts = [_text(plain_rows(part, zone))[1:-1] for part in parts_of(rows)]
    before, empty, after = _text(document(replace(given, rows=given.rows.slice(0, 0)), parts)).partition(
        b'"rows":['
    )
    return b"".join((before, empty, b",".join(texts), after))


def _text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def document(given: Answer, parts: bool = False) -> dict[str, Any]:
    """An answer as JSON can hold it.

    The events of the provenance are those behind all rows of the answer; one that is in several windows counts in each.
    """
    zone, mark = given.version.view.source.zone, given.mark
    return {
        "view": given.version.view.name,
        "version": given.version.number,
        "total": given.total,
        "rows": plain_rows(shown(given, parts), zone),
        "provenance": {
            "base_through": list(_stretches(given.through, zone)),
            "tail_epoch": plain(mark and mark.epoch, zone),
            "complete": plain(mark and mark.complete, zone),
            "replaying": mark is not None and mark.replaying,
            "base_events": given.base_events,
            "tail_events": given.tail_events,
        },
    }


def shown(given: Answer, parts: bool = False) -> pa.Table:
    hidden = [name for name in KNOWN if not (parts and name in PARTS)]
    return given.rows.drop_columns(hidden)


def _found(reading: Reading, request: Request) -> tuple[pa.Table, Snapshot]:
    view = reading.version.view
    read = reading.windows(scope_of(view, request), view.window.read_as(request.grain))
    found = numbers(read, request.grain, request.keys(view))
    if "window_start" in found.column_names:
        found = begun_in(found, "window_start", request.start, request.end)
    return found, read


def _answer(read: Snapshot, found: pa.Table, request: Request) -> Answer:
    in_tail, events = (pc.sum(found[name]).as_py() or 0 for name in (IN_TAIL, EVENT_COUNT))
    page = found.slice(request.offset, request.limit)
    return Answer(read.version, page, len(found), events - in_tail, in_tail, read.through, read.mark)


def _ranked(found: pa.Table, ranking: Ranking, within: str | None = None) -> pa.Table:
    """The first rows of each group, with their place in it; equal numbers are in the order of the other columns."""
    apart = [double_quoted(within)] if within and within in found.column_names else []
    partition = f"PARTITION BY {apart[0]} " if apart else ""
    order = [f"{double_quoted(ranking.by)} DESC NULLS LAST", *map(double_quoted, found.column_names)]
    place = f"row_number() OVER ({partition}ORDER BY {', '.join(order)})"
    with cursor() as database:
        database.register("found", found.append_column("_row", pa.array(np.arange(len(found)))))
        first = database.sql(
            f"SELECT _row, {place} AS _place FROM found QUALIFY _place <= {ranking.n} "
            f"ORDER BY {', '.join([*apart, '_place'])}"
        ).to_arrow_table()
    chosen = found.take(first["_row"].combine_chunks())
    return chosen.add_column(0, RANK, first["_place"])


def _stretches(through: Mapping[date, datetime], zone: ZoneInfo) -> Iterable[dict[str, str]]:
    """Days in a row that have the same cut, as one."""
    ordered = sorted(through.items())
    runs = groupby(enumerate(ordered), lambda at: (at[1][0] - timedelta(days=at[0]), at[1][1]))
    for (_, cut), run in runs:
        days = [day for _, (day, _) in run]
        yield {"first_day": str(days[0]), "last_day": str(days[-1]), "through": plain(cut, zone)}
