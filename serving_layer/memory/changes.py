"""What changed in a view between two looks, and the three ways to tell it: updates, what became final, all rows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from braid.define.view import View
from braid.tables.view_tables import bounds
from serving_layer.answer.json_values import plain_column, plain_rows
from serving_layer.answer.numbers import KNOWN, STATUS, final_until, numbers
from serving_layer.answer.scope import Wanted
from serving_layer.memory.touched import Touched, touched_windows
from serving_layer.memory.view_in_memory import ViewInMemory

CHANGE = "_change"

Row = dict[str, Any]
Rows = dict[tuple[Any, ...], Row]


@dataclass(frozen=True)
class Move:
    """From one look to the next: the rows of all windows that can have changed, as they were and as they are.

    A row is known by its keys and the start of its window: a session that goes on is the same session.
    """

    before: Rows
    after: Rows
    now: ViewInMemory


@dataclass(frozen=True)
class NewCommits:
    """What came between two looks; which rows that touched is found out when somebody wants to know.

    Without `appended` anything may have changed: another version, or commits that were not seen.
    """

    before: ViewInMemory
    now: ViewInMemory
    appended: pa.Table | None
    published: frozenset[date] = frozenset()

    def move(self) -> Move | None:
        """None when no number and no status can have changed."""
        if self.appended is None:
            return Move(rows_of(self.before), rows_of(self.now), self.now)
        changed = pa.concat_tables(self._places(self.appended), promote_options="permissive")
        view, marks = self.now.view, (self.before.mark, self.now.mark)
        touch = touched_windows(self.now, changed, *(final_until(view, mark) for mark in marks))
        if touch is None:
            return None
        return Move(rows_of(self.before, touch), rows_of(self.now, touch), self.now)

    def _places(self, appended: pa.Table) -> Iterator[pa.Table]:
        """What says which windows a row belongs to, of all rows that came or went."""
        names = [*bounds(self.now.view), *self.now.view.keys]
        yield appended.select(names)
        for now in (self.before, self.now):
            for day in self.published & now.files.keys():
                yield now.block(day).states().select(names)
        for day in self.published & {*self.before.old_days()}:
            yield self.before.old_block(day).states().select(names)
        days = pa.array(self.published, pa.date32())
        for piece in self.before.pieces if self.published else ():
            rows = piece.block.states()
            yield rows.filter(pc.is_in(rows["day"], days)).select(names)


def rows_of(now: ViewInMemory, touch: Touched | None = None) -> Rows:
    """The numbers of some windows, or of all, as plain data."""
    found = numbers(now.snapshot()) if touch is None else touch.windows(numbers(touch.read(now)))
    return by_name(now.view, found)


def by_name(view: View, found: pa.Table) -> Rows:
    known_by = [name for name in (*view.keys, "window_start") if name in found.column_names]
    plain = plain_rows(found.drop_columns(list(KNOWN)), view.source.zone)
    return {tuple(row[name] for name in known_by): row for row in plain}


def updates(move: Move) -> list[Row]:
    """Rows with new numbers, and rows that are no more: a session that became part of another."""
    return _differences(move.before, move.after, _numbers)


def final(move: Move) -> list[Row]:
    """Rows that have become final, or were and have changed; and those that are not final any more."""
    return _differences(_finals(move.before), _finals(move.after), dict)


def matching(now: ViewInMemory, keys: Mapping[str, Wanted]) -> Callable[[Row], bool]:
    """Whether a row has the keys that are asked for: their values are typed as for an answer, and made plain."""
    zone = now.view.source.zone
    wanted = {key: plain_column(values, zone) for key, values in now.wanted(keys).items()}
    return lambda row: all(row[key] in values for key, values in wanted.items())


class WholeTable:
    """The whole table, kept by changing what changes."""

    def __init__(self) -> None:
        self._rows: Rows = {}

    def take(self, move: Move) -> list[Row] | None:
        """All rows, by window and key; None when none has changed."""
        if move.before == move.after:
            return None
        for gone in move.before.keys() - move.after.keys():
            self._rows.pop(gone, None)
        self._rows |= move.after
        return sorted(self._rows.values(), key=_place)


def _differences(before: Rows, after: Rows, seen: Callable[[Row], Row]) -> list[Row]:
    changed = [
        row | {CHANGE: "changed"}
        for name, row in after.items()
        if name not in before or seen(before[name]) != seen(row)
    ]
    withdrawn = [row | {CHANGE: "withdrawn"} for name, row in before.items() if name not in after]
    # Withdrawn first: what took a row's place comes after it.
    return sorted(withdrawn, key=_place) + sorted(changed, key=_place)


def _numbers(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != STATUS}


def _finals(rows: Rows) -> Rows:
    return {name: row for name, row in rows.items() if row[STATUS] != "provisional"}


def _place(row: Row) -> tuple[str, str]:
    return str(row.get("window_start", "")), str(list(row.values()))
