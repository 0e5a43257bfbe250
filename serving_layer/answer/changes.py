"""The three ways to watch a view: what changes, what becomes final, or the whole table."""

from collections.abc import Callable
from typing import Literal

from serving_layer.answer.numbers import STATUS
from serving_layer.memory.follower import Move, Row, Rows

CHANGE = "_change"
Mode = Literal["updates", "final", "complete"]


def updates(move: Move) -> list[Row]:
    """Rows with new numbers, and rows that are no more: a session that became part of another."""
    return _differences(move.before, move.after, _numbers)


def final(move: Move) -> list[Row]:
    """Rows that have become final, or were and have changed; and those that are not final any more."""
    return _differences(_finals(move.before), _finals(move.after), dict)


class Table:
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
