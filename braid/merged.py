"""A view's states as they are served, as Spark DataFrames: each event from exactly one side of its day's cut."""

from datetime import date, datetime
from typing import TYPE_CHECKING

from braid.events import read_lookup, view_events
from braid.frames import days_and_moments
from braid.log import Log, read
from braid.states import state_columns
from braid.states.spark import merge, prepare
from braid.view import View
from braid.view_tables import LATE, ViewTables, base_columns, bounds, pinned, throughs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from braid.events import BaseOf


def beyond(tail: "DataFrame", through: dict[date, datetime]) -> "DataFrame":
    """The tail's rows that the base does not cover."""
    from pyspark.sql import functions as F

    if not through:
        return tail
    covered = days_and_moments(tail.sparkSession, through, "_through")
    joined = tail.join(F.broadcast(covered), on="day", how="left")
    open_rows = joined.where(F.col("_through").isNull() | (F.col("epoch") > F.col("_through")))
    return open_rows.select(*tail.columns)


def base_states(view: View, base: "DataFrame") -> "DataFrame":
    """The base's states, without the rows that only say that a day had no events."""
    return base.where(f"{bounds(view)[0]} is not null").select(*base_columns(view))


def served_states(
    spark: "SparkSession", view: View, tables: ViewTables, cut: datetime | None = None
) -> "DataFrame":
    """One state per (day, pane, keys), up to a cut where one is given.

    The tail is pinned before the base. The other way round, a publish between the two would take rows out of the tail
    that the older base does not have.
    """
    from pyspark.sql import functions as F

    tail = pinned(spark, tables.tail)
    base = pinned(spark, tables.base)
    open_rows = beyond(tail, throughs(base))
    if cut is not None:
        open_rows = open_rows.where(F.col("epoch") <= F.lit(cut))
    columns = ["day", *bounds(view), *view.keys, *state_columns(view), LATE]
    return merge(view, base_states(view, base).select(*columns).unionByName(open_rows.select(*columns)))


def recomputed_states(
    spark: "SparkSession",
    view: View,
    log: Log,
    cut: datetime | None = None,
    from_day: date | None = None,
    base_of: "BaseOf | None" = None,
) -> "DataFrame":
    """The same, computed from the log alone in one go: what every other way must agree with."""
    from pyspark.sql import functions as F

    rows = read(spark, log)
    if cut is not None:
        rows = rows.where(F.col("_epoch") <= F.lit(cut))
    if from_day is not None:
        rows = rows.where(F.col("day") >= F.lit(from_day))
    return prepare(view, view_events(view, rows, lambda lookup: read_lookup(spark, lookup, base_of)))
