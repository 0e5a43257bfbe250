"""How right served numbers are: before a publish beside what is published, and of published days beside the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.agreement import agreement
from batch_layer.days import Accuracy
from batch_layer.plan import ALL, Days, plan
from batch_layer.tasks import view_days
from braid.define.view import View
from braid.merge.spark import served_here, served_states
from braid.parity import EVENTS_SHOWN, VERDICT, Parity, judged, shared_measures, with_truth
from braid.runtime.settings import Settings
from braid.states.spark_calendar import on_days
from braid.tables.delta_rs import open_table, pin
from braid.tables.view_tables import ViewTables


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
        states = spark.createDataFrame(states)
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
    numbers = [
        name
        for name in (EVENTS_SHOWN, *shared_measures(view, view))
        if types[name] in ("long", "integer", "short", "byte", "double", "float", "decimal")
    ]
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
    table = open_table(tables.tail)
    mark = pin(table).mark() if table is not None else None
    return None if mark is None else mark.complete


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
                found.append(with_truth(spark, settings, part.version, part.latest, part.cuts))
    return found
