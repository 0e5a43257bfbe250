"""Keeps a view in memory up to date: reads the commits that its tables got since the last look."""

import time
from datetime import date

import pyarrow as pa
from deltalake import DeltaTable

from braid.deploy.versions import Version
from braid.merge.arrow import tail_columns
from braid.runtime.settings import Settings
from braid.tables.delta_rs import Pinned, bytes_of, open_table, pin, table_id
from braid.tables.view_tables import ViewTables
from braid.writing import is_same_table
from serving_layer.answer.reader import (
    ATTEMPTS,
    active_version,
    being_rebuilt,
    no_table,
    pin_tail,
    refuse_other_base,
)
from serving_layer.memory.blocks import BlockCache, files_of
from serving_layer.memory.changes import Move, NewCommits, rows_of
from serving_layer.memory.view_in_memory import ViewInMemory, open_in_memory

# What a follower keeps of a base unless it is told otherwise.
MEMORY = 1 << 30
# How often tables without news are asked whether they are still the same tables.
SAME_TABLES_EVERY = 2.0
# Files of a version that was pinned are deleted a day after they were replaced.
PIN_AGAIN = 3600.0


class Follower:
    """Has a view in memory as it was at the last look; `now` changes only when a look has succeeded as a whole."""

    def __init__(self, settings: Settings, name: str, memory: BlockCache | None = None) -> None:
        self._settings = settings
        self._name = name
        self._memory = memory or BlockCache(MEMORY)
        # (table, version) -> the file of that commit when it was read.
        self._stamps: dict[tuple[str, int], tuple[int, int] | None] = {}
        self._compared = time.monotonic()
        self.now = self._open(active_version(settings, name))

    def start(self) -> Move:
        """All that there is now."""
        return Move({}, rows_of(self.now), self.now)

    def step(self) -> Move | None:
        """Takes what came since; None when no number and no status can have changed."""
        news = self.look()
        if news is None:
            return None
        self.now = news.now
        return news.move()

    def look(self) -> NewCommits | None:
        """What came since `now`, which stays as it is; None when nothing did."""
        before = self.now
        version = active_version(self._settings, self._name)
        is_same = (version.number, version.view) == (before.version.number, before.version.view)
        taken = self._take_commits(before) if is_same else None
        if taken is not None:
            after, appended = taken
            after, published = self._take_base(after)
            after = self._within_share(after)
            self._note(before, after)
            # Asked after the commits were read: had the tables been replaced before that, it would show now.
            if not self._are_replaced(before, has_news=after is not before):
                return None if after is before else NewCommits(before, after, appended, published)
        return NewCommits(before, self._open(version), None)

    def _open(self, version: Version) -> ViewInMemory:
        for _ in range(ATTEMPTS):
            try:
                opened = self._read_tables(version)
            except FileNotFoundError:
                # Of a table that was replaced after its files were named.
                continue
            # Asked last: tables that were rebuilt meanwhile would be mixed with those that they replaced.
            if all(
                is_same_table(pinned.table_id, table_id(place)) for place, pinned, _ in self._read(opened)
            ):
                refuse_other_base(self._settings, version, opened.mark, opened.base)
                return opened
        raise being_rebuilt(version)

    def _read_tables(self, version: Version) -> ViewInMemory:
        tables = ViewTables.of(self._settings, version)
        # The tail first, as every reader: see serving_layer.answer.reader.
        tail = pin_tail(self._settings, version)
        self._base_table: DeltaTable | None = open_table(tables.base)
        base = None if self._base_table is None else pin(self._base_table)
        too_large = bytes_of(tail.table) > self._memory.tail_share
        opened = open_in_memory(version, self._memory, tail, base, too_large=too_large)
        self._pinned_at = time.monotonic()
        self._stamps = {}
        self._note(opened)
        return opened

    def _take_commits(self, now: ViewInMemory) -> tuple[ViewInMemory, pa.Table] | None:
        """The view after its tail's new commits, and their rows; None when some are past their retention."""
        parts = [now.tail_pinned.schema.empty_table().select(tail_columns(now.view))]
        while True:
            version = now.tail_version + 1
            commit = now.tail_pinned.logged(version)
            if commit is None and now.tail_pinned.checkpoint() >= version:
                return None
            if commit is None:
                return now, pa.concat_tables(parts, promote_options="permissive")
            rows = None
            if commit.added:
                rows = now.tail_pinned.rows_of(commit.added, tail_columns(now.view))
                parts.append(rows)
            now = now.with_commit(version, rows, commit.mark)

    def _take_base(self, now: ViewInMemory) -> tuple[ViewInMemory, frozenset[date]]:
        """The view after the days that were published anew, and those days."""
        if self._base_table is None:
            self._base_table = open_table(ViewTables.of(self._settings, now.version).base)
            if self._base_table is None:
                return now, frozenset()
        elif now.base is not None and now.base.logged(now.base.version + 1) is None:
            return now, frozenset()
        else:
            self._base_table.update_incremental()
        base = pin(self._base_table)
        new = files_of(base)
        published = frozenset(
            day for day in new.keys() | now.files.keys() if new.get(day) != now.files.get(day)
        )
        return now.with_base(base, published), published

    def _within_share(self, now: ViewInMemory) -> ViewInMemory:
        """Leaves the old part of a tail that nobody publishes in its table, as of the version that was read."""
        until = None if now.mark is None else now.mark.complete
        has_more = until is not None and (now.old is None or now.old.until < until)
        is_large = has_more and now.tail_bytes > self._memory.tail_share
        is_old_pin = now.old is not None and time.monotonic() - self._pinned_at > PIN_AGAIN
        if not is_large and not is_old_pin:
            return now
        table = open_table(ViewTables.of(self._settings, now.version).tail, now.tail_version)
        if table is None:
            return now
        self._pinned_at = time.monotonic()
        return now.without_old(pin(table))

    def _are_replaced(self, now: ViewInMemory, has_news: bool) -> bool:
        """Whether other tables stand where these stood: rebuilt, or restored from elsewhere."""
        if not has_news and time.monotonic() - self._compared < SAME_TABLES_EVERY:
            return False
        for location, pinned, version in self._read(now):
            stamp = pinned.stamp(version)
            if stamp == self._stamps.get((location, version)):
                continue
            # A commit that was read has another file, or none: it was cleaned up, or it was another table's.
            if (present := table_id(location)) is None:
                raise no_table(now.version)
            if present != pinned.table_id:
                return True
            self._stamps[location, version] = stamp
        self._compared = time.monotonic()
        return False

    def _note(self, *views: ViewInMemory) -> None:
        """Remembers the files of the newest commits that these are made from, as they were when they were read."""
        self._stamps = {
            (location, version): self._stamps[location, version]
            if (location, version) in self._stamps
            else pinned.stamp(version)
            for view in views
            for location, pinned, version in self._read(view)
        }

    def _read(self, now: ViewInMemory) -> list[tuple[str, Pinned, int]]:
        """Table, its pin and the newest version that was read of it."""
        tables = ViewTables.of(self._settings, now.version)
        base = [] if now.base is None else [(tables.base, now.base, now.base.version)]
        return [(tables.tail, now.tail_pinned, now.tail_version), *base]
