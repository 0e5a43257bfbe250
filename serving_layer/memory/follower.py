"""Follows a view in memory, commit by commit: what changed since the last look, of the windows that were touched."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from braid.define.view import View
from braid.deploy.store import Version
from braid.runtime.settings import Settings
from braid.tables.delta_rs import open_table, pin, require_table
from braid.tables.view_tables import ViewTables, bounds
from serving_layer.answer.numbers import KNOWN, final_until, numbers
from serving_layer.answer.plain import plain_rows
from serving_layer.answer.reader import active_version, tail_columns
from serving_layer.memory.budget import Memory
from serving_layer.memory.touched import Touch, touched
from serving_layer.memory.view_in_memory import Held, files_of, hold

# What a follower keeps of a base unless it is told otherwise.
MEMORY = 1 << 30

Row = dict[str, Any]
Rows = dict[tuple[Any, ...], Row]


@dataclass(frozen=True)
class Move:
    """From one look to the next: the rows of all windows that can have changed, as they were and as they are.

    A row is known by its keys and the start of its window: a session that goes on is the same session.
    """

    before: Rows
    after: Rows
    now: Held


@dataclass(frozen=True)
class Change:
    """What came between two looks; which rows that touched is found out when somebody wants to know.

    Without `appended` anything may have changed: another version, or commits that were not seen.
    """

    before: Held
    now: Held
    appended: pa.Table | None
    published: frozenset[date] = frozenset()

    def move(self) -> Move | None:
        """None when no number and no status can have changed."""
        if self.appended is None:
            return Move(rows_of(self.before), rows_of(self.now), self.now)
        changed = pa.concat_tables(self._places(self.appended), promote_options="permissive")
        view, marks = self.now.view, (self.before.mark, self.now.mark)
        touch = touched(self.now, changed, *(final_until(view, mark) for mark in marks))
        if touch is None:
            return None
        return Move(rows_of(self.before, touch), rows_of(self.now, touch), self.now)

    def _places(self, appended: pa.Table) -> Iterator[pa.Table]:
        """What says which windows a row belongs to, of all rows that came or went."""
        names = [*bounds(self.now.view), *self.now.view.keys]
        yield appended.select(names)
        for held in (self.before, self.now):
            for day in self.published & held.files.keys():
                yield held.block(day).states().select(names)
        days = pa.array(self.published, pa.date32())
        for piece in self.before.pieces if self.published else ():
            rows = piece.block.states()
            yield rows.filter(pc.is_in(rows["day"], days)).select(names)


class Follower:
    """Holds a view in memory, and goes on with it when it is told to look."""

    def __init__(self, settings: Settings, name: str, memory: Memory | None = None) -> None:
        self._settings = settings
        self._name = name
        self._memory = memory or Memory(MEMORY)
        self.now = self._open(active_version(settings, name))

    def start(self) -> Move:
        """All that there is now."""
        return Move({}, rows_of(self.now), self.now)

    def step(self) -> Move | None:
        """What came since; None when no number and no status can have changed."""
        change = self.advance()
        return None if change is None else change.move()

    def advance(self) -> Change | None:
        """Takes what came since; None when nothing did."""
        before = self.now
        version = active_version(self._settings, self._name)
        is_same = (version.number, version.view) == (before.version.number, before.version.view)
        appended = self._take_commits() if is_same else None
        if appended is None:
            self.now = self._open(version)
            return Change(before, self.now, None)
        published = self._take_base()
        if self.now is before:
            return None
        return Change(before, self.now, appended, published)

    def _open(self, version: Version) -> Held:
        tables = ViewTables(self._settings, version.view.name, version.number)
        # The tail first, as every reader: see serving_layer.reader.
        tail = pin(require_table(tables.tail, version))
        self._base_table: DeltaTable | None = open_table(tables.base)
        return hold(version, self._memory, tail, None if self._base_table is None else pin(self._base_table))

    def _take_commits(self) -> pa.Table | None:
        """Takes the rows of new commits, which are given back; None when some are past their retention."""
        parts = []
        while True:
            held, version = self.now, self.now.tail_version + 1
            commit = held.tail_pinned.logged(version)
            if commit is None and held.tail_pinned.checkpoint() >= version:
                return None
            if commit is None:
                break
            rows = None
            if commit.added:
                rows = held.tail_pinned.rows_of(commit.added, tail_columns(held.view))
                parts.append(rows)
            self.now = held.with_commit(version, rows, commit.mark)
        return pa.concat_tables([_no_rows(self.now), *parts], promote_options="permissive")

    def _take_base(self) -> frozenset[date]:
        """Takes the days that were published anew."""
        held = self.now
        if self._base_table is None:
            place = ViewTables(self._settings, self._name, held.version.number)
            self._base_table = open_table(place.base)
            if self._base_table is None:
                return frozenset()
        elif held.base is not None and held.base.logged(held.base.version + 1) is None:
            return frozenset()
        else:
            self._base_table.update_incremental()
        base = pin(self._base_table)
        new = files_of(base)
        published = frozenset(
            day for day in new.keys() | held.files.keys() if new.get(day) != held.files.get(day)
        )
        self.now = held.with_base(base, published)
        return published


def rows_of(held: Held, touch: Touch | None = None) -> Rows:
    """The numbers of some windows, or of all, as plain data."""
    found = numbers(held.snapshot()) if touch is None else touch.windows(numbers(touch.read(held)))
    return by_name(held.view, found)


def by_name(view: View, found: pa.Table) -> Rows:
    known_by = [name for name in (*view.keys, "window_start") if name in found.column_names]
    plain = plain_rows(found.drop_columns(list(KNOWN)), view.source.zone)
    return {tuple(row[name] for name in known_by): row for row in plain}


def _no_rows(held: Held) -> pa.Table:
    return held.tail_pinned.schema.empty_table().select(tail_columns(held.view))
