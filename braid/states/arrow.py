"""States of a view as Arrow tables: the merge and the presentation of braid.states.spark, without Spark."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.define.schema import double_quoted
from braid.define.windows import Fixed, Session, Window
from braid.states import state_columns
from braid.states.calendar import micros, needs_no_zone, windows_of
from braid.states.database import Connection, cursor

if TYPE_CHECKING:
    from braid.define.view import View

INSTANT = pa.timestamp("us", tz="UTC")
# Times are whole microseconds in SQL: DuckDB's own time zones, an extension, are not needed.
_TIMES = ("pane", "first", "last", "window_start", "window_end")


def merge(view: "View", states: pa.Table, by: Sequence[str] = ("day",)) -> pa.Table:
    """One state per (by, pane, keys); partial sessions of one `by` are joined where the gap allows."""
    with cursor() as database:
        database.register("states", _with_times_as_numbers(states))
        if isinstance(view.window, Session):
            return _sessions(view, states, by, view.window.gap, database)
        return _merged(view, states, [*by, "pane", *view.keys], "states", database)


def present(view: "View", states: pa.Table, grain: str | None = None) -> pa.Table:
    """Numbers per (keys, window): keys, window_start and window_end (but for all time), measures."""
    window = view.window.read_as(grain)
    is_merged = len(states) == 1 and all(measure.merges_in_sql for measure in state_columns(view).values())
    merged = _alone(view, states, window) if is_merged else _together(view, states, window)
    bounds = [name for name in ("window_start", "window_end") if name in merged.column_names]
    columns = {name: merged[name] for name in (*view.keys, *bounds)}
    for name, measure in view.measures.items():
        columns[name] = measure.present_arrow(one_array(merged[measure.state_name]))
    return pa.table(columns)


def _together(view: "View", states: pa.Table, window: Window) -> pa.Table:
    """One state per (keys, window)."""
    with cursor() as database:
        database.register("states", _with_times_as_numbers(states))
        if isinstance(window, Session):
            return _with_session_bounds(_sessions(view, states, (), window.gap, database), window.gap)
        if isinstance(window, Fixed):
            database.register("windows", _windows(states, window, ZoneInfo(view.source.timezone)))
            group = [*view.keys, "window_start", "window_end"]
            return _merged(view, states, group, "states JOIN windows USING (pane)", database)
        return _merged(view, states, view.keys, "states", database)


def _alone(view: "View", state: pa.Table, window: Window) -> pa.Table:
    """One state is its own merge, where SQL merges it: the most common question needs no database."""
    if isinstance(window, Session):
        return _with_session_bounds(state, window.gap)
    if isinstance(window, Fixed):
        windows = _windows(state, window, ZoneInfo(view.source.timezone))
        copies = state.take(pa.array(np.zeros(len(windows), np.int64)))
        for name in ("window_start", "window_end"):
            copies = copies.append_column(name, windows[name].cast(INSTANT))
        return copies
    return state


def _merged(
    view: "View", states: pa.Table, group: Sequence[str], source: str, database: Connection
) -> pa.Table:
    chosen = [*map(double_quoted, group), *_merges(view)]
    # Without keys there is one group even of nothing; no states are to be no rows, with keys and without.
    sql = f"SELECT {', '.join(chosen)} FROM {source} GROUP BY ALL HAVING count(*) > 0"
    return _finished(view, states, database.sql(sql).to_arrow_table())


def _sessions(
    view: "View", states: pa.Table, by: Sequence[str], gap: timedelta, database: Connection
) -> pa.Table:
    group = [double_quoted(name) for name in (*by, *view.keys)]
    partition = f"PARTITION BY {', '.join(group)}" if group else ""
    order = f"{partition} ORDER BY first, last"
    before = f"{order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    begins = f"coalesce(first - max(last) OVER ({before}) > {micros(gap)}, true)::INT AS _begins"
    # Rows that are alike in both may come in another order here: as a range they are one step, whichever begins it.
    island = f"sum(_begins) OVER ({order} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS _island"
    chosen = [
        *map(double_quoted, by),
        "min(first) AS first",
        "max(last) AS last",
        *map(double_quoted, view.keys),
        *_merges(view),
    ]
    sql = (
        f"SELECT {', '.join(chosen)} FROM (SELECT *, {island} FROM (SELECT *, {begins} FROM states)) "
        f"GROUP BY {', '.join([*group, '_island'])}"
    )
    return _finished(view, states, database.sql(sql).to_arrow_table())


def _merges(view: "View") -> list[str]:
    return [
        f"{m.merge_sql(double_quoted(name))} AS {double_quoted(name)}"
        for name, m in state_columns(view).items()
    ]


def _finished(view: "View", states: pa.Table, gathered: pa.Table) -> pa.Table:
    """States that SQL could only gather are merged, and everything has the type that it came with."""
    measures = state_columns(view)
    fields, columns = [], []
    for name in gathered.column_names:
        column = gathered[name]
        if name in measures:
            column = measures[name].merge_lists(one_array(column))
        field = states.schema.field(name) if name in states.column_names else pa.field(name, INSTANT)
        if name in _TIMES:
            column = column.cast(pa.int64()).cast(INSTANT)
        fields.append(field)
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=pa.schema(fields))


def _windows(states: pa.Table, window: Fixed, zone: ZoneInfo) -> pa.Table:
    """Which windows each pane that occurs belongs to."""
    panes = states["pane"].cast(INSTANT).unique().drop_null()
    if needs_no_zone(window.every):
        return _elapsed_windows(panes.cast(pa.int64()).to_numpy(), window)
    rows = [(pane, *bounds) for pane in panes.to_pylist() for bounds in windows_of(pane, window, zone)]
    names = ("pane", "window_start", "window_end")
    columns = {
        name: pa.array([row[i] for row in rows], INSTANT).cast(pa.int64()) for i, name in enumerate(names)
    }
    return pa.table(columns)


def _elapsed_windows(panes: Any, window: Fixed) -> pa.Table:
    """The same where no zone matters: all panes at once."""
    every, size = micros(window.every), micros(window.size)
    # Lengths that need no zone divide an hour, and the epoch began with one.
    starts = panes - panes % every
    shifts = np.arange(0, size, every)
    begins = (starts[:, None] - shifts[None, :]).ravel()
    return pa.table(
        {"pane": np.repeat(panes, len(shifts)), "window_start": begins, "window_end": begins + size}
    )


def _with_session_bounds(sessions: pa.Table, gap: timedelta) -> pa.Table:
    end = pc.add(sessions["last"], pa.scalar(gap, pa.duration("us")))
    return sessions.append_column("window_start", sessions["first"]).append_column("window_end", end)


def _with_times_as_numbers(states: pa.Table) -> pa.Table:
    for name in _TIMES:
        if name in states.column_names:
            numbers = states[name].cast(INSTANT).cast(pa.int64())
            states = states.set_column(states.schema.get_field_index(name), name, numbers)
    return states


def one_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
