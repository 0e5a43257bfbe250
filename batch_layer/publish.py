"""Puts a day into a view's base in one commit: readers have the old day or the new one, and its cut never goes back."""

from datetime import date, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.cuts import replay_cut
from braid.cut import effective
from braid.define.view import View
from braid.tables.commits import BaseCommit
from braid.tables.conditional import Seen, again_while_overtaken, commit
from braid.tables.view_tables import ViewTables, base_columns


def publish(
    spark: SparkSession, tables: ViewTables, view: View, day: date, states: DataFrame, cut: datetime
) -> datetime:
    """Replaces a day by its states. Returns the cut that it covers then: a later one may be there."""

    def attempt(seen: Seen) -> datetime:
        # A stream may have begun since the cut was taken, and have stored its history under a later one.
        covered = effective(cut, seen.pin().throughs().get(day), replay_cut(tables))
        if covered == cut:
            _replace(spark, seen, day, _with_marker(spark, view, day, states, cut), cut)
        return covered

    return again_while_overtaken(tables.base, attempt)


def _replace(spark: SparkSession, seen: Seen, day: date, rows: DataFrame, cut: datetime) -> None:
    writer = rows.coalesce(1).write.format("delta").mode("overwrite")
    commit(spark, writer.option("replaceWhere", f"day = date'{day}'"), seen, BaseCommit(cut, "batch"))


def _with_marker(spark: SparkSession, view: View, day: date, states: DataFrame, cut: datetime) -> DataFrame:
    """A day without events is published too, as one row that carries its cut."""
    if not states.isEmpty():
        return states
    types = {column.name: column.dataType for column in states.schema}
    known = {"day": F.lit(day), "through": F.lit(cut)}
    return spark.range(1).select(
        *(known.get(name, F.lit(None)).cast(types[name]).alias(name) for name in base_columns(view))
    )
