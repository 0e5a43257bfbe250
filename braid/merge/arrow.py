"""A view's states as they are served, as Arrow tables: each event from exactly one side of its day's cut."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from braid.define.view import View
from braid.deploy.versions import Version
from braid.states import EVENTS, state_columns
from braid.states.arrow import INSTANT
from braid.tables.commits import TailCommit
from braid.tables.view_tables import LATE, bounds

# How many of a row's events the tail has: the others are in the base.
IN_TAIL = "_in_tail"


@dataclass(frozen=True)
class Snapshot:
    """One version's tables at one moment. Rows of the tail that the base covers may be there, and are not served."""

    version: Version
    tail_version: int
    base_version: int | None
    tail: pa.Table
    base: pa.Table
    through: Mapping[date, datetime]
    mark: TailCommit | None

    @property
    def view(self) -> View:
        return self.version.view


def tail_columns(view: View) -> list[str]:
    return ["epoch", *base_columns(view)]


def base_columns(view: View) -> list[str]:
    """Without `through`: a snapshot keeps it once for each day."""
    return ["day", *bounds(view), LATE, *view.keys, *state_columns(view)]


def beyond(tail: pa.Table, through: Mapping[date, datetime]) -> pa.Table:
    """The tail's rows beyond the cut of their day; all of them for a day without one."""
    return tail.filter(pc.fill_null(pc.greater(tail["epoch"], _of_its_day(tail, through)), True))


def upto(tail: pa.Table, cuts: Mapping[date, datetime]) -> pa.Table:
    """The tail's rows up to the cut of their day; none of a day without one."""
    return tail.filter(pc.fill_null(pc.less_equal(tail["epoch"], _of_its_day(tail, cuts)), False))


def _of_its_day(tail: pa.Table, cuts: Mapping[date, datetime]) -> pa.Array:
    """For each row the cut of its day, null where it has none."""
    days, moments = pa.array(cuts.keys(), pa.date32()), pa.array(cuts.values(), INSTANT)
    return moments.take(pc.index_in(tail["day"], days).combine_chunks())


def served_states(snapshot: Snapshot) -> pa.Table:
    """States as they are to be merged: those of the base, and those of the tail beyond each day's cut."""
    base, tail = snapshot.base, beyond(snapshot.tail, snapshot.through).drop_columns("epoch")
    # A day without events has one row, which carries the day's cut and nothing else.
    base = base.filter(pc.is_valid(base[bounds(snapshot.view)[0]]))
    nothing = pa.repeat(pa.scalar(0, pa.int64()), len(base))
    sides = [base.append_column(IN_TAIL, nothing), tail.append_column(IN_TAIL, tail[EVENTS.state_name])]
    return pa.concat_tables(sides, promote_options="permissive")
