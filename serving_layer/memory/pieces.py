"""A tail in memory in pieces: rows of some commits each, merged into larger ones, and as states of longer panes."""

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

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
