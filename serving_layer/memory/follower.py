"""Keeps a view in memory up to date: reads the commits that its tables got since the last look."""

from datetime import date

import pyarrow as pa
from deltalake import DeltaTable

from braid.deploy.store import Version
from braid.merge.arrow import tail_columns
from braid.runtime.settings import Settings
from braid.tables.delta_rs import open_table, pin, require_table
from braid.tables.view_tables import ViewTables
from serving_layer.answer.reader import active_version
from serving_layer.memory.blocks import BlockCache
from serving_layer.memory.changes import Move, NewCommits, rows_of
from serving_layer.memory.view_in_memory import ViewInMemory, files_of, open_in_memory

# What a follower keeps of a base unless it is told otherwise.
MEMORY = 1 << 30


class Follower:
    """Holds a view in memory, and goes on with it when it is told to look."""

    def __init__(self, settings: Settings, name: str, memory: BlockCache | None = None) -> None:
        self._settings = settings
        self._name = name
        self._memory = memory or BlockCache(MEMORY)
        self.now = self._open(active_version(settings, name))

    def start(self) -> Move:
        """All that there is now."""
        return Move({}, rows_of(self.now), self.now)

    def step(self) -> Move | None:
        """What came since; None when no number and no status can have changed."""
        change = self.advance()
        return None if change is None else change.move()

    def advance(self) -> NewCommits | None:
        """Takes what came since; None when nothing did."""
        before = self.now
        version = active_version(self._settings, self._name)
        is_same = (version.number, version.view) == (before.version.number, before.version.view)
        appended = self._take_commits() if is_same else None
        if appended is None:
            self.now = self._open(version)
            return NewCommits(before, self.now, None)
        published = self._take_base()
        if self.now is before:
            return None
        return NewCommits(before, self.now, appended, published)

    def _open(self, version: Version) -> ViewInMemory:
        tables = ViewTables(self._settings, version.view.name, version.number)
        # The tail first, as every reader: see serving_layer.answer.reader.
        tail = pin(require_table(tables.tail, version))
        self._base_table: DeltaTable | None = open_table(tables.base)
        return open_in_memory(
            version, self._memory, tail, None if self._base_table is None else pin(self._base_table)
        )

    def _take_commits(self) -> pa.Table | None:
        """Takes the rows of new commits, which are given back; None when some are past their retention."""
        parts = []
        while True:
            now, version = self.now, self.now.tail_version + 1
            commit = now.tail_pinned.logged(version)
            if commit is None and now.tail_pinned.checkpoint() >= version:
                return None
            if commit is None:
                break
            rows = None
            if commit.added:
                rows = now.tail_pinned.rows_of(commit.added, tail_columns(now.view))
                parts.append(rows)
            self.now = now.with_commit(version, rows, commit.mark)
        return pa.concat_tables([_no_rows(self.now), *parts], promote_options="permissive")

    def _take_base(self) -> frozenset[date]:
        """Takes the days that were published anew."""
        now = self.now
        if self._base_table is None:
            place = ViewTables(self._settings, self._name, now.version.number)
            self._base_table = open_table(place.base)
            if self._base_table is None:
                return frozenset()
        elif now.base is not None and now.base.logged(now.base.version + 1) is None:
            return frozenset()
        else:
            self._base_table.update_incremental()
        base = pin(self._base_table)
        new = files_of(base)
        published = frozenset(
            day for day in new.keys() | now.files.keys() if new.get(day) != now.files.get(day)
        )
        self.now = now.with_base(base, published)
        return published


def _no_rows(now: ViewInMemory) -> pa.Table:
    return now.tail_pinned.schema.empty_table().select(tail_columns(now.view))
