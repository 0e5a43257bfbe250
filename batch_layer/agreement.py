"""How far two small tables of a view's states agree, day by day, without Spark: as accuracy does it with Spark."""

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batch_layer.days import Accuracy
from braid.define.schema import double_quoted
from braid.define.view import View
from braid.measures.base import FLOAT_TOLERANCE, Measure
from braid.states import EVENTS, state_columns
from braid.states.arrow import one_array
from braid.states.database import cursor
from braid.tables.view_tables import bounds


def agreement(view: View, served: pa.Table, made: pa.Table) -> dict[date, Accuracy]:
    """Day -> how many groups either has, how many are equal, and by how much the worst is wrong.

    Equal states are equal numbers: only of groups whose states differ the numbers are made.
    """
    pairs = _pairs(view, served, made)
    mine, theirs = (one_array(pairs[name]) for name in ("mine", "theirs"))
    alike = pc.fill_null(one_array(pairs["alike"]), False).to_numpy(zero_copy_only=False)
    # What one side lacks is wrong by all of it.
    error = np.where(alike, 0.0, 1.0)
    doubtful = np.flatnonzero(~alike & mine.is_valid().to_numpy(False) & theirs.is_valid().to_numpy(False))
    if len(doubtful):
        sides = (served.take(mine.take(pa.array(doubtful))), made.take(theirs.take(pa.array(doubtful))))
        alike[doubtful], error[doubtful] = _judged(view, *sides)
    days = pa.table({"day": pairs["day"], "equal": pa.array(alike.astype(np.int64)), "error": error})
    found = days.group_by("day").aggregate([("equal", "count"), ("equal", "sum"), ("error", "max")])
    return {
        row["day"]: Accuracy(row["equal_count"], row["equal_sum"], row["error_max"])
        for row in found.to_pylist()
    }


def _pairs(view: View, served: pa.Table, made: pa.Table) -> pa.Table:
    """The rows of both that are of one group: day, row here and row there, and whether their states are the same."""
    group = [double_quoted(name) for name in ("day", *bounds(view), *view.keys)]
    same = " AND ".join(f"s.{name} IS NOT DISTINCT FROM m.{name}" for name in group)
    alike = " AND ".join(f"s.{q} IS NOT DISTINCT FROM m.{q}" for q in map(double_quoted, state_columns(view)))
    with cursor() as database:
        for name, rows in (("served", served), ("made", made)):
            database.register(name, rows.append_column("_row", pa.array(np.arange(len(rows)))))
        return database.sql(
            f"SELECT coalesce(s.day, m.day) AS day, s._row AS mine, m._row AS theirs, {alike} AS alike "
            f"FROM served s FULL JOIN made m ON {same}"
        ).to_arrow_table()


def _judged(view: View, served: pa.Table, made: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Of groups that both have, row by row: whether their numbers are equal, and how wrong the served ones are."""
    equal, error = np.ones(len(made), dtype=bool), np.zeros(len(made))
    for measure in (EVENTS, *view.measures.values()):
        mine, theirs = _numbers(measure, served), _numbers(measure, made)
        same, off = _compared(mine, theirs)
        equal &= same
        error = np.maximum(error, off)
    return equal, np.where(equal, 0.0, error)


def _compared(mine: pa.Array, theirs: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    both_null = pc.and_(mine.is_null(), theirs.is_null())
    same = pc.or_(pc.fill_null(pc.equal(mine, theirs), False), both_null).to_numpy(zero_copy_only=False)
    if not (
        pa.types.is_integer(mine.type) or pa.types.is_floating(mine.type) or pa.types.is_decimal(mine.type)
    ):
        return same, np.zeros(len(same))
    a, b = (_doubles(side) for side in (mine, theirs))
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.maximum(np.abs(a), np.abs(b))
        off = np.where(largest == 0, 0.0, np.abs(a - b) / largest)
    if pa.types.is_floating(mine.type):
        # But for the order in which they were added; and what is no number is equal to itself.
        valid = pc.and_(mine.is_valid(), theirs.is_valid()).to_numpy(zero_copy_only=False)
        same = same | (valid & ((off <= FLOAT_TOLERANCE) | (np.isnan(a) & np.isnan(b))))
    return same, np.nan_to_num(off, nan=1.0)


def _doubles(numbers: pa.Array) -> Any:
    return pc.fill_null(numbers.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)


def _numbers(measure: Measure, states: pa.Table) -> pa.Array:
    """What is presented: of a state that no merge has put in order, after it was merged by itself."""
    column = one_array(states[measure.state_name])
    if not measure.merges_in_sql:
        begins = np.concatenate(([0], np.cumsum(column.is_valid().to_numpy(False)))).astype(np.int32)
        column = measure.merge_lists(pa.ListArray.from_arrays(begins, column.drop_null()))
    return measure.present_arrow(column)
