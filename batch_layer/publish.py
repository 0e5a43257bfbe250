"""Puts days into a view's base in one commit: readers have all of them old or all new, and no cut ever goes back."""

from collections.abc import Collection, Mapping
from datetime import date, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.cut import effective
from braid.define.view import View
from braid.states.spark_calendar import days_and_moments, on_days
from braid.tables.commits import BaseCommit
from braid.tables.conditional import Seen, again_while_overtaken, commit
from braid.tables.tail_and_base import refuse_lost_base, replay_cut
from braid.tables.view_tables import ViewTables, base_columns


def publish(
    spark: SparkSession,
    tables: ViewTables,
    view: View,
    states: DataFrame,
    cuts: Mapping[date, datetime],
    with_states: Collection[date],
) -> dict[date, datetime]:
    """Replaces days by their states. Day -> the cut that it covers then: a later one may be there.

    `with_states` are the days that have any. A day that covers a later cut already is left out of the commit.
    """

    def attempt(seen: Seen) -> dict[date, datetime]:
        # A stream may have begun since the cuts were taken, and have stored its history under a later one.
        there, replayed = seen.pin().throughs(), replay_cut(tables)
        covered = {day: effective(cut, there.get(day), replayed) for day, cut in cuts.items()}
        if ours := {day: cut for day, cut in cuts.items() if covered[day] == cut}:
            _replace(spark, seen, _rows(spark, view, states, ours, with_states), ours)
        return covered

    refuse_lost_base(tables)
    return again_while_overtaken(tables.base, attempt) if cuts else {}


def _replace(spark: SparkSession, seen: Seen, rows: DataFrame, cuts: Mapping[date, datetime]) -> None:
    # A file for each day. Only where there are many, rows have to change places for it; by a number that is given, as
    # Spark would put what is small into one task, which then writes one file after another.
    writers = min(len(cuts), spark.sparkContext.defaultParallelism)
    gathered = rows.coalesce(1) if writers == 1 else rows.repartition(writers, "day")
    writer = gathered.write.format("delta").mode("overwrite").option("replaceWhere", on_days(cuts))
    commit(spark, writer, seen, BaseCommit(max(cuts.values()), "batch", days=cuts))


def _rows(
    spark: SparkSession,
    view: View,
    states: DataFrame,
    cuts: Mapping[date, datetime],
    with_states: Collection[date],
) -> DataFrame:
    """The states of these days. A day without events is published too, as one row that carries its cut."""
    empty = {day: cut for day, cut in cuts.items() if day not in with_states}
    chosen = states.where(on_days(cuts))
    if not empty:
        return chosen
    types = {column.name: column.dataType for column in states.schema}
    markers = days_and_moments(spark, empty, "through").select(
        *(
            (F.col(name) if name in ("day", "through") else F.lit(None)).cast(types[name]).alias(name)
            for name in base_columns(view)
        )
    )
    return markers if len(empty) == len(cuts) else chosen.unionByName(markers)
