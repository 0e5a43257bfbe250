"""A view in memory at one moment: its base by day, its tail in pieces, and any part of both as a snapshot."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from braid.define.view import View
from braid.define.windows import (
    DAY,
    Fixed,
    Window,
)
from braid.deploy.versions import Version
from braid.merge.arrow import Snapshot, base_columns, beyond, tail_columns
from braid.states.arrow import INSTANT
from braid.tables.commits import TailCommit
from braid.tables.delta_rs import Pinned
from serving_layer.answer.scope import EVERYTHING, Scope, Wanted, wanted_values, whole_days
from serving_layer.memory.blocks import Block, BlockCache, files_of, rows_by_day
from serving_layer.memory.tail_pieces import (
    LEVELS,
    OldTail,
    Piece,
    left_in_table,
    level_of,
    rolled,
    settled,
    tier_of,
)


@dataclass(frozen=True)
class ViewInMemory:
    """One version's tables at one moment. Values of another moment share with it what has not changed."""

    version: Version
    memory: BlockCache
    tail_pinned: Pinned
    tail_version: int
    pieces: tuple[Piece, ...]
    mark: TailCommit | None
    base: Pinned | None
    files: Mapping[date, tuple[str, ...]]
    rows: Mapping[date, int]
    through: Mapping[date, datetime]
    old: OldTail | None = None

    @property
    def view(self) -> View:
        return self.version.view

    @property
    def base_version(self) -> int | None:
        return None if self.base is None else self.base.version

    @property
    def tail_bytes(self) -> int:
        return sum(piece.block.nbytes for piece in self.pieces)

    def windows(self, scope: Scope, window: Window) -> Snapshot:
        return self.snapshot(scope, level_of(self.view, window))

    def whole(self, scope: Scope) -> Snapshot:
        """Whole days are read as days."""
        days, edges = whole_days(self.view, scope)
        level = DAY if days and isinstance(self.view.window, Fixed) and self.view.window.pane < DAY else None
        parts = [self.snapshot(days, level)] if days else []
        parts += [self.snapshot(edge) for edge in edges]
        return replace(
            parts[0],
            tail=pa.concat_tables([part.tail for part in parts]),
            base=pa.concat_tables([part.base for part in parts]),
            through={day: cut for part in parts for day, cut in part.through.items()},
        )

    def snapshot(self, scope: Scope = EVERYTHING, level: timedelta | None = None) -> Snapshot:
        """The part that a question needs; with a level, the base in panes of that length."""
        return self.part([scope], self.wanted(scope.keys), level)

    def part(
        self, scopes: Sequence[Scope], wanted: Mapping[str, pa.Array], level: timedelta | None = None
    ) -> Snapshot:
        """The rows of several stretches of time that do not overlap, and of some keys."""
        base = [
            block.states(scope.since, scope.until, wanted)
            for scope in scopes
            for block in self._blocks(scope, level)
            if block.count(scope.since, scope.until)
        ]
        tail = [
            piece.block.states(scope.since, scope.until, wanted)
            for scope in scopes
            for piece in self.pieces
            if piece.block.count(scope.since, scope.until)
        ]
        tail += [
            self.old_block(day).states(scope.since, scope.until, wanted)
            for scope in scopes
            for day in self.old_days(scope)
        ]
        return Snapshot(
            self.version,
            self.tail_version,
            self.base_version,
            pa.concat_tables([self._nothing(tail_columns(self.view)), *tail], promote_options="permissive"),
            pa.concat_tables([self._nothing(base_columns(self.view)), *base], promote_options="permissive"),
            {day: self.through[day] for scope in scopes for day in self.days(scope) if day in self.through},
            self.mark,
        )

    def cost(self, scope: Scope, level: timedelta | None = None) -> int:
        """About how many states a question merges, whatever their keys, without reading any."""
        tail = sum(piece.block.count(scope.since, scope.until) for piece in self.pieces)
        tail += sum(self._cost_of_old_day(day, scope) for day in self.old_days(scope))
        return tail + sum(self._cost_of_day(day, scope, level) for day in self.days(scope))

    def levels(self) -> list[timedelta]:
        """The lengths that the base's days are also kept in."""
        window = self.view.window
        return [level for level in LEVELS if isinstance(window, Fixed) and window.pane < level]

    def wanted(self, keys: Mapping[str, Wanted]) -> dict[str, pa.Array]:
        """The values of keys that a question names, in the type that they have in the tables."""
        return wanted_values(keys, self.tail_pinned.schema, self.view.source.zone)

    def days(self, scope: Scope = EVERYTHING) -> list[date]:
        """The days of the base whose rows may be in the scope."""
        return self._within(self.files, scope)

    def old_days(self, scope: Scope = EVERYTHING) -> list[date]:
        """The days of which the tail has rows that were left in its table."""
        return [] if self.old is None else self._within(self.old.days, scope)

    def tail_days(self) -> set[date]:
        """The days of which the tail has events."""
        return {day for piece in self.pieces for day in piece.block.values("day")} | {*self.old_days()}

    def old_block(self, day: date) -> Block:
        """A day of what was left in the tail's table, beyond the day's cut."""
        if self.old is None:
            raise LookupError(day)
        old, through = self.old, self.through.get(day)
        return self.memory.block(self._old_name(day), lambda: Block(old.states(self.view, day, through)))

    def without_old(self, tail: Pinned) -> "ViewInMemory":
        """The same, with the rows of closed epochs left in the table, which is pinned at the version that was read."""
        until = None if self.mark is None else self.mark.complete
        if until is None:
            return self
        pieces, left = [], []
        for piece in self.pieces:
            rows = piece.block.states()
            is_old = pc.less_equal(rows["epoch"], pa.scalar(until, INSTANT))
            left.append(rows.filter(is_old))
            kept = rows.filter(pc.invert(is_old))
            pieces += [Piece(tier_of(len(kept)), Block(kept))] if len(kept) else []
        before = self.old or OldTail(tail, until, {})
        return replace(self, pieces=tuple(pieces), old=before.with_more(tail, until, left))

    def block(self, day: date, level: timedelta | None = None) -> Block:
        """A day of the base; content decides its name, so that a day that is published anew is another block."""
        load = partial(self._load, day) if level is None else partial(self._rolled, day, level)
        return self.memory.block(self._name(day, level), load)

    def with_commit(self, version: int, rows: pa.Table | None, mark: TailCommit | None) -> "ViewInMemory":
        """After one more commit of the tail."""
        pieces = self.pieces
        if rows is not None and len(rows):
            pieces = settled(self.view, (*pieces, Piece(0, Block(rows))))
        return replace(self, tail_version=version, pieces=pieces, mark=mark or self.mark)

    def with_base(self, base: Pinned, changed: Iterable[date]) -> "ViewInMemory":
        """After a publish of some days: rows of the tail that they cover leave it."""
        days = pa.array(list(changed), pa.date32())
        files = files_of(base)
        kept = {day: cut for day, cut in self.through.items() if day in files}
        through = kept | base.throughs(pc.field("day").isin(days))
        pieces = tuple(
            piece if len(rows) == len(piece.block) else Piece(piece.tier, Block(rows))
            for piece in self.pieces
            if len(rows := beyond(piece.block.states(), through))
        )
        rows = {day: count for day, count in self.rows.items() if self.files.get(day) == files.get(day)}
        rows |= rows_by_day(base, [day for day in files if day not in rows])
        old = self.old and self.old.uncovered(through)
        return replace(self, base=base, files=files, rows=rows, through=through, pieces=pieces, old=old)

    def _name(self, day: date, level: timedelta | None) -> Hashable:
        return self.version.view.name, self.version.number, self.files[day], level

    def _old_name(self, day: date) -> Hashable:
        if self.old is None:
            raise LookupError(day)
        return "tail", self.old.pinned.table_id, day, self.old.days[day].last, self.through.get(day)

    def _within(self, days: Iterable[date], scope: Scope) -> list[date]:
        first, last = scope.days(self.view.source.zone)
        return sorted(
            day for day in days if (first is None or day >= first) and (last is None or day <= last)
        )

    def _cost_of_old_day(self, day: date, scope: Scope) -> int:
        block = self.memory.find(self._old_name(day))
        if block is not None:
            return block.count(scope.since, scope.until)
        return 0 if self.old is None else self.old.days[day].rows

    def _cost_of_day(self, day: date, scope: Scope, level: timedelta | None) -> int:
        block = self.memory.find(self._name(day, level))
        if block is not None:
            return block.count(scope.since, scope.until)
        # A day that is not in memory is about as large as its files say, and smaller in longer panes.
        rows, window = self.rows.get(day, 0), self.view.window
        return int(rows * (window.pane / level)) if level and isinstance(window, Fixed) else rows

    def _blocks(self, scope: Scope, level: timedelta | None) -> list[Block]:
        return [self.block(day, level) for day in self.days(scope)]

    def _load(self, day: date) -> Block:
        if self.base is None:
            raise LookupError(day)
        where = pc.field("day") == pa.scalar(day, pa.date32())
        return Block(self.base.rows(base_columns(self.view), where))

    def _rolled(self, day: date, level: timedelta) -> Block:
        return Block(rolled(self.view, self.block(day).states(), level))

    def _nothing(self, columns: Iterable[str]) -> pa.Table:
        return self.tail_pinned.schema.empty_table().select(list(columns))


def open_in_memory(
    version: Version, memory: BlockCache, tail: Pinned, base: Pinned | None, too_large: bool = False
) -> ViewInMemory:
    """What the tables hold now: the tail, or what is recent of a large one, and of the base where its days are."""
    through = {} if base is None else base.throughs()
    files = {} if base is None else files_of(base)
    mark = tail.mark()
    old, recent = None, None
    if too_large and mark is not None and mark.complete is not None:
        old = left_in_table(tail, mark.complete).uncovered(through)
        recent = pc.field("epoch") > pa.scalar(mark.complete, INSTANT)
    rows = beyond(tail.rows(tail_columns(version.view), recent), through)
    pieces = (Piece(tier_of(len(rows)), Block(rows)),) if len(rows) else ()
    sizes = {} if base is None else rows_by_day(base, files)
    return ViewInMemory(version, memory, tail, tail.version, pieces, mark, base, files, sizes, through, old)
