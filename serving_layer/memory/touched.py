"""Which windows a change can have touched, so that only they are computed again."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.define.schema import double_quoted
from braid.define.view import View
from braid.define.windows import DAY, Fixed, Session
from braid.merge.arrow import Snapshot
from braid.states.arrow import INSTANT
from braid.states.calendar import instant_of, is_wall_clock, micros_of, pane_start, windows_of
from braid.states.database import cursor
from serving_layer.answer.scope import EVERYTHING, Scope
from serving_layer.memory.view_in_memory import ViewInMemory

# Beyond so many stretches all that lies between the first and the last is read, and what is not wanted left out.
MOST = 16

Interval = tuple[datetime, datetime]
_BEGINNING = micros_of(datetime.min.replace(tzinfo=UTC))


@dataclass(frozen=True)
class TouchedTimes:
    """Windows that lie in one of some stretches of time, which are in order and do not meet."""

    starts: Any
    ends: Any

    def read(self, now: ViewInMemory) -> Snapshot:
        """The panes of those windows."""
        bounds = list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))
        apart = bounds if len(bounds) <= MOST else [(bounds[0][0], bounds[-1][1])]
        found = now.part([_scope(start, end) for start, end in apart], {})
        return replace(found, tail=self.states(found.tail), base=self.states(found.base))

    def states(self, states: pa.Table) -> pa.Table:
        """The panes of those windows."""
        return states.filter(self._inside(states["pane"], states["pane"], np.less))

    def windows(self, found: pa.Table) -> pa.Table:
        """Without windows that reach out of a stretch: of those not all panes were there."""
        return found.filter(self._inside(found["window_start"], found["window_end"], np.less_equal))

    def _inside(self, first: pa.ChunkedArray, last: pa.ChunkedArray, before: Any) -> pa.Array:
        at = np.searchsorted(self.starts, _micros(first), side="right") - 1
        return pa.array((at >= 0) & before(_micros(last), self.ends[at]), pa.bool_())


@dataclass(frozen=True)
class TouchedKeys:
    """All windows of some keys: sessions and all time have no other bounds."""

    keys: pa.Table

    def read(self, now: ViewInMemory) -> Snapshot:
        # Each key's values one by one are quickly found, and may be too many: values that go together are fewer.
        wanted = {name: self.keys[name].combine_chunks().unique() for name in self.keys.column_names}
        found = now.part([EVERYTHING], wanted)
        return replace(found, tail=self.states(found.tail), base=self.states(found.base))

    def states(self, states: pa.Table) -> pa.Table:
        names = self.keys.column_names
        if not names:
            return states
        numbered = states.select(names).append_column("_row", pa.array(np.arange(len(states))))
        same = " AND ".join(
            f"states.{name} IS NOT DISTINCT FROM keys.{name}" for name in map(double_quoted, names)
        )
        with cursor() as connection:
            connection.register("states", numbered)
            connection.register("keys", self.keys)
            rows = connection.sql(f"SELECT _row FROM states SEMI JOIN keys ON {same} ORDER BY _row")
            return states.take(rows.to_arrow_table()["_row"].combine_chunks())

    def windows(self, found: pa.Table) -> pa.Table:
        return found


Touched = TouchedTimes | TouchedKeys


def touched_windows(
    now: ViewInMemory, changed: pa.Table, was_final: datetime | None, is_final: datetime | None
) -> Touched | None:
    """The windows of rows that came or went, and those that have become final; None when there are none."""
    view = now.view
    if isinstance(view.window, Fixed):
        stretches = [*_windows(view, changed, view.window), *_ended(view, view.window, was_final, is_final)]
        return _joined(stretches) if stretches else None
    parts = [changed]
    if isinstance(view.window, Session) and is_final is not None and is_final != was_final:
        gap = view.window.gap
        parts += _ending(now, was_final and was_final - gap, is_final - gap)
    # Counted before the keys are chosen: a table without columns has no rows.
    if not any(len(part) for part in parts):
        return None
    keys = pa.concat_tables([part.select(view.keys) for part in parts], promote_options="permissive")
    return TouchedKeys(keys.group_by(view.keys).aggregate([]) if view.keys else keys)


def _windows(view: View, changed: pa.Table, window: Fixed) -> Iterable[Interval]:
    for pane in changed["pane"].cast(INSTANT).unique().to_pylist():
        if pane is not None:
            yield from windows_of(pane, window, view.source.zone)


def _ended(
    view: View, window: Fixed, was_final: datetime | None, is_final: datetime | None
) -> Iterable[Interval]:
    """Where the windows lie that have become final."""
    if is_final is None:
        return
    if was_final is None:
        yield datetime.min.replace(tzinfo=UTC), is_final
    # A window ends where another one starts.
    elif pane_start(is_final.astimezone(UTC), window.every, view.source.zone) > was_final:
        # A change of the clock makes windows of wall-clock time longer; the longest one known skipped a day.
        longer = DAY if is_wall_clock(window.every) else timedelta(0)
        yield was_final - window.size - longer, is_final


def _ending(now: ViewInMemory, after: datetime | None, until: datetime) -> Iterable[pa.Table]:
    """Partial sessions whose last event is in (after, until]; each lies within one day."""
    blocks = [piece.block for piece in now.pieces]
    blocks += [now.block(day) for day in now.days(Scope(after, until))]
    blocks += [now.old_block(day) for day in now.old_days(Scope(after, until))]
    return [_ended_in(block.states(), after, until) for block in blocks]


def _ended_in(sessions: pa.Table, after: datetime | None, until: datetime) -> pa.Table:
    chosen = pc.less_equal(sessions["last"], pa.scalar(until, INSTANT))
    if after is not None:
        chosen = pc.and_(chosen, pc.greater(sessions["last"], pa.scalar(after, INSTANT)))
    return sessions.filter(chosen)


def _joined(stretches: list[Interval]) -> TouchedTimes:
    joined: list[list[int]] = []
    for start, end in sorted((micros_of(start), micros_of(end)) for start, end in stretches):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return TouchedTimes(np.array([start for start, _ in joined]), np.array([end for _, end in joined]))


def _scope(start: int, end: int) -> Scope:
    """A stretch from the beginning of time, whose first moment no zone can tell the day of, has no start."""
    since = None if start == _BEGINNING else instant_of(start)
    return Scope(since, instant_of(end))


def _micros(column: pa.ChunkedArray) -> Any:
    # A day without events has a row without a pane: it lies before every stretch.
    return column.cast(INSTANT).cast(pa.int64()).fill_null(np.iinfo("int64").min).to_numpy()
