"""A tail in memory: in pieces that are merged into larger ones, and its old part, which is left in its table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from braid.define.view import View
from braid.define.windows import (
    DAY,
    HOUR,
    Fixed,
    Window,
)
from braid.merge.arrow import base_columns, tail_columns
from braid.states import arrow
from braid.states.arrow import INSTANT
from braid.states.calendar import pane_start
from braid.tables.delta_rs import Pinned
from serving_layer.answer.numbers import with_late
from serving_layer.memory.blocks import Block

# So many pieces of a tail of one size become one of the next: few pieces, and none is written anew often.
PIECES = 8


# Days are also kept as states of these lengths, so that a long range is read from few rows.
LEVELS = (DAY, HOUR)


@dataclass(frozen=True)
class Piece:
    """Rows of the tail that came with some commits; PIECES of one tier make one of the next."""

    tier: int
    block: Block


def level_of(view: View, window: Window) -> timedelta | None:
    """The longest panes that these windows can be read from, where those are longer than the view's own."""
    if not isinstance(view.window, Fixed) or not isinstance(window, Fixed):
        return None
    fitting = (level for level in LEVELS if not window.every % level and level > view.window.pane)
    return next(fitting, None)


def rolled(view: View, states: pa.Table, level: timedelta) -> pa.Table:
    """The same events as states of longer panes."""
    panes = states["pane"].cast(INSTANT).combine_chunks().dictionary_encode()
    panes = panes if isinstance(panes, pa.DictionaryArray) else panes.chunk(0)
    starts = [pane_start(pane, level, view.source.zone) for pane in panes.dictionary.to_pylist()]
    longer = pa.array(starts, INSTANT).take(panes.indices)
    place = states.schema.get_field_index("pane")
    states = states.set_column(
        place, states.schema.field(place), longer.cast(states.schema.field(place).type)
    )
    return arrow.merge(with_late(view), states).select(base_columns(view))


def settled(view: View, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Pieces of one tier are merged into one of the next when there are enough of them."""
    tier = pieces[-1].tier
    alike = [piece for piece in pieces if piece.tier == tier]
    if len(alike) < PIECES:
        return pieces
    others = tuple(piece for piece in pieces if piece.tier != tier)
    rows = pa.concat_tables([piece.block.states() for piece in alike], promote_options="permissive")
    merged = arrow.merge(with_late(view), rows, by=("epoch", "day")).select(tail_columns(view))
    return settled(view, (*others, Piece(tier + 1, Block(merged))))


def tier_of(rows: int) -> int:
    """A tail that is read at once is as large as so many commits would have made it."""
    tier = 0
    while rows > 1000 * PIECES**tier:
        tier += 1
    return tier


@dataclass(frozen=True)
class OldDay:
    """How many rows there are of a day, and the epoch of the newest: all rows up to it are there."""

    rows: int
    last: datetime


@dataclass(frozen=True)
class OldTail:
    """Rows up to an epoch that can gain no more."""

    pinned: Pinned
    until: datetime
    days: Mapping[date, OldDay]

    def states(self, view: View, day: date, through: datetime | None) -> pa.Table:
        """The rows of a day beyond its cut, merged over their epochs: few, however long nobody publishes the day."""
        where = (pc.field("day") == pa.scalar(day, pa.date32())) & self._is_old()
        if through is not None:
            where = where & (pc.field("epoch") > pa.scalar(through, arrow.INSTANT))
        rows = self.pinned.rows(tail_columns(view), where)
        merged = arrow.merge(with_late(view), rows.drop_columns("epoch")).select(base_columns(view))
        # Beyond the day's cut as a whole: what a cut covers was not read.
        epoch = pa.repeat(pa.scalar(self.until, rows.schema.field("epoch").type), len(merged))
        return merged.add_column(0, rows.schema.field("epoch"), epoch)

    def uncovered(self, through: Mapping[date, datetime]) -> "OldTail":
        """Without the days whose cut covers all of it."""
        kept = {day: old for day, old in self.days.items() if day not in through or through[day] < old.last}
        return replace(self, days=kept)

    def with_more(self, pinned: Pinned, until: datetime, left: Iterable[pa.Table]) -> "OldTail":
        """After more rows have been left in the table."""
        return OldTail(pinned, until, _counted(self.days, left))

    def _is_old(self) -> Any:
        return pc.field("epoch") <= pa.scalar(self.until, arrow.INSTANT)


def left_in_table(pinned: Pinned, until: datetime) -> OldTail:
    """All rows up to an epoch: only their days and epochs are read."""
    old = OldTail(pinned, until, {})
    batches = pinned.dataset.scanner(columns=["day", "epoch"], filter=old._is_old()).to_batches()
    return replace(old, days=_counted({}, map(pa.Table.from_batches, ([batch] for batch in batches))))


def _counted(days: Mapping[date, OldDay], more: Iterable[pa.Table]) -> dict[date, OldDay]:
    found = dict(days)
    for rows in more:
        by_day = rows.group_by("day").aggregate([("epoch", "count"), ("epoch", "max")])
        for day, count, last in zip(*(column.to_pylist() for column in by_day.columns), strict=True):
            known = found.get(day, OldDay(0, last))
            found[day] = OldDay(known.rows + count, max(known.last, last))
    return found
