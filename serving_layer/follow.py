"""Follows a view in memory, commit by commit: what changed since the last look, of the windows that were touched."""

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from braid.delta_tables import open_table, pin, require_table
from braid.deployment import Version
from braid.settings import Settings
from braid.states import arrow
from braid.view_tables import ViewTables, bounds
from serving_layer.answer import plain_rows
from serving_layer.numbers import KNOWN, final_until, numbers, with_late
from serving_layer.reader import (
    Snapshot,
    active_version,
    base_columns,
    snapshot,
    tail_columns,
    uncovered,
)
from serving_layer.touch import Touch, narrowed, touched

# Every commit leaves its rows as a piece of its own; that many pieces are merged into one.
PIECES = 256

Row = dict[str, Any]
Rows = dict[tuple[Any, ...], Row]


@dataclass(frozen=True)
class Move:
    """From one look to the next: the rows of all windows that can have changed, as they were and as they are.

    A row is known by its keys and the start of its window: a session that goes on is the same session.
    """

    before: Rows
    after: Rows
    now: Snapshot


class Follower:
    """Holds a view's base and tail in memory. Covered rows of the tail leave it when its own base covers them."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._open(active_version(settings, name))

    def start(self) -> Move:
        """All that there is now."""
        return Move({}, rows_of(self.now), self.now)

    def step(self) -> Move | None:
        """What came since; None when no number and no status can have changed."""
        before = self.now
        version = active_version(self._settings, self._name)
        if (version.number, version.view) != (before.version.number, before.version.view):
            return self._reopened(version)
        changed_by_tail = self._take_commits()
        if changed_by_tail is None:
            return self._reopened(version)
        changed = pa.concat_tables([changed_by_tail, self._take_base()], promote_options="permissive")
        touch = touched(self.now, changed, final_until(before), final_until(self.now))
        if touch is None:
            return None
        return Move(rows_of(before, touch), rows_of(self.now, touch), self.now)

    def _open(self, version: Version) -> None:
        tables = ViewTables(self._settings, version.view.name, version.number)
        # The tail first, as every reader: see serving_layer.reader.
        self._tail_table = require_table(tables.tail, version)
        self._tail = pin(self._tail_table)
        self._base_table = open_table(tables.base)
        self._base = None if self._base_table is None else pin(self._base_table)
        self.now = snapshot(version, self._tail, self._base)

    def _reopened(self, version: Version) -> Move:
        before = rows_of(self.now)
        self._open(version)
        return Move(before, rows_of(self.now), self.now)

    def _take_commits(self) -> pa.Table | None:
        """Takes the rows of new commits, which are given back; None when some are past their retention."""
        now, view = self.now, self.now.view
        self._tail_table.update_incremental()
        newest = self._tail_table.version()
        commits = [self._tail.logged(version) for version in range(now.tail_version + 1, newest + 1)]
        known = [commit for commit in commits if commit is not None]
        if len(known) < len(commits):
            return None
        added = [file for commit in known for file in commit.added]
        rows = self._tail.rows_of(added, tail_columns(view)) if added else now.tail.slice(0, 0)
        marks = [commit.mark for commit in known if commit.mark is not None]
        tail = pa.concat_tables([now.tail, rows], promote_options="permissive")
        if tail["epoch"].num_chunks > PIECES:
            tail = arrow.merge(with_late(view), tail, by=("epoch", "day")).select(tail_columns(view))
        self.now = replace(now, tail_version=newest, tail=tail, mark=marks[-1] if marks else now.mark)
        return rows.select(_places(now))

    def _take_base(self) -> pa.Table:
        """Takes the days that were published anew; gives all rows back that came or went with them."""
        now, view = self.now, self.now.view
        nothing = now.tail.select(_places(now)).slice(0, 0)
        if self._base_table is None:
            self._base_table = open_table(ViewTables(self._settings, view.name, now.version.number).base)
        else:
            self._base_table.update_incremental()
        if self._base_table is None or self._base_table.version() == now.base_version:
            return nothing
        old, new = (
            self._base.files_by_day() if self._base else {},
            (base := pin(self._base_table)).files_by_day(),
        )
        days = pa.array({(old | new)[file] for file in old.keys() ^ new.keys()}, pa.date32())
        published = base.rows(base_columns(view), pc.field("day").isin(days))
        stays, goes = _divided(now.base, days)
        _, covered = _divided(now.tail, days)
        of_other_days = {day: cut for day, cut in now.through.items() if day not in set(days.to_pylist())}
        through = of_other_days | base.throughs(pc.field("day").isin(days))
        self._base = base
        self.now = replace(
            now,
            base_version=base.version,
            base=pa.concat_tables([stays, published], promote_options="permissive"),
            through=through,
            tail=uncovered(now.tail, through),
        )
        parts = [part.select(_places(now)) for part in (goes, published, covered)]
        return pa.concat_tables(parts, promote_options="permissive")


def rows_of(held: Snapshot, touch: Touch | None = None) -> Rows:
    """The numbers of some windows, or of all, as plain data."""
    view = held.view
    found = numbers(held) if touch is None else touch.windows(numbers(narrowed(held, touch)))
    known_by = [name for name in (*view.keys, "window_start") if name in found.column_names]
    plain = plain_rows(found.drop_columns(list(KNOWN)), view.source.zone)
    return {tuple(row[name] for name in known_by): row for row in plain}


def _places(held: Snapshot) -> list[str]:
    """What says which windows a row belongs to."""
    return [*bounds(held.view), *held.view.keys]


def _divided(rows: pa.Table, days: pa.Array) -> tuple[pa.Table, pa.Table]:
    """The rows of other days, and those of these."""
    of_these = pc.is_in(rows["day"], days)
    return rows.filter(pc.invert(of_these)), rows.filter(of_these)
