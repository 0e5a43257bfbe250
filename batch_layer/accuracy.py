"""How right served numbers are: before a publish beside what is published, and of published days beside the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.days import Accuracy
from batch_layer.plan import ALL, Days, plan
from batch_layer.tasks import view_days
from braid.define.schema import double_quoted
from braid.define.view import View
from braid.measures.base import FLOAT_TOLERANCE, Measure
from braid.merge.spark import served_here, served_states
from braid.parity import EVENTS_SHOWN, NUMBERS, VERDICT, Parity, judged, shared_measures, with_truth
from braid.runtime.settings import Settings
from braid.runtime.spark import from_arrow
from braid.states import EVENTS, state_columns
from braid.states.arrow import one_array
from braid.states.database import cursor
from braid.states.spark_calendar import on_days
from braid.tables.delta_rs import pin_at
from braid.tables.view_tables import ViewTables, bounds


def accuracies(
    spark: SparkSession,
    view: View,
    tables: ViewTables,
    states: DataFrame | pa.Table,
    cuts: Mapping[date, datetime],
) -> dict[date, Accuracy]:
    """Day -> how what is served now compares with these states. Nothing while a stream has not come up to a cut.

    States that are in this process are compared here, where what is served is small as well.
    """
    complete = _complete_to(tables)
    reached = {day: cut for day, cut in cuts.items() if complete is not None and complete >= cut}
    if not reached:
        return {}
    if isinstance(states, pa.Table):
        if len(reached) < len(cuts):
            states = states.filter(pc.is_in(states["day"], pa.array(reached, pa.date32())))
        if (served := served_here(view, tables, reached)) is not None:
            return agreement(view, served, states)
        states = from_arrow(spark, states)
    elif len(reached) < len(cuts):
        states = states.where(on_days(reached))
    return by_spark(view, served_states(spark, view, tables, reached), states)


def by_spark(view: View, served: DataFrame, states: DataFrame) -> dict[date, Accuracy]:
    """Day -> how many groups either has, how many are equal, and by how much the worst is wrong."""
    found = judged(view, served, view, states)
    rows = found.groupBy("day").agg(
        F.count(F.lit(1)).alias("groups"),
        F.count_if(F.col(VERDICT) == "equal").alias("equal"),
        F.max(_largest_error(view, found)).alias("error"),
    )
    return {row.day: Accuracy(row.groups, row.equal, float(row.error or 0.0)) for row in rows.collect()}


def _largest_error(view: View, found: DataFrame) -> Column:
    """Of a group's numbers, relative to what is published; a group that one side lacks is wrong by all of it."""
    types = {field.name: field.dataType.typeName() for field in found.schema["mine"].dataType.fields}  # type: ignore[attr-defined]
    numbers = [name for name in (EVENTS_SHOWN, *shared_measures(view, view)) if types[name] in NUMBERS]
    errors = []
    for name in numbers:
        mine = F.coalesce(F.col(f"mine.{name}"), F.lit(0)).cast("double")
        theirs = F.coalesce(F.col(f"theirs.{name}"), F.lit(0)).cast("double")
        largest = F.greatest(F.abs(mine), F.abs(theirs))
        off = F.when(largest == 0, F.lit(0.0)).otherwise(F.abs(mine - theirs) / largest)
        # Where one side is no number, or infinite, all of it is wrong.
        errors.append(F.nanvl(off, F.lit(1.0)))
    wrong = F.greatest(*errors) if len(errors) > 1 else errors[0]
    return F.when(F.col(VERDICT) == "equal", F.lit(0.0)).otherwise(wrong)


def _complete_to(tables: ViewTables) -> datetime | None:
    tail = pin_at(tables.tail)
    mark = tail.mark() if tail is not None else None
    return None if mark is None else mark.complete


def agreement(view: View, served: pa.Table, made: pa.Table) -> dict[date, Accuracy]:
    """The same of tables in this process, without Spark.

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


def compare(
    spark: SparkSession,
    settings: Settings,
    views: Sequence[View],
    days: Days = ALL,
    cut: datetime | None = None,
) -> list[Parity]:
    """For each view, whether what is served of its published days is what the log gives, of each up to its cut."""
    found = []
    for source in plan(settings, views, days, cut):
        published = {(day.view, day.day): day.through for day in source.days if day.through is not None}
        for of_view in view_days(settings, [day for day in source.days if (day.view, day.day) in published]):
            covered = {day: published[of_view.view.name, day] for day in of_view.cuts}
            for part in replace(of_view, cuts=covered).by_lookups():
                tables = ViewTables.of(settings, part.version)
                mine = served_states(spark, part.version.view, tables, part.cuts)
                found.append(with_truth(spark, settings, part.version, mine, part.latest, part.cuts))
    return found
