"""A view's states as they are served, as Spark DataFrames: each event from exactly one side of its day's cut."""

from collections.abc import Mapping
from datetime import date, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.define.view import View
from braid.errors import BraidError
from braid.runtime.frames import days_and_moments
from braid.runtime.settings import Settings, current_settings
from braid.states import state_columns
from braid.states.spark import merge, present
from braid.tables.spark_tables import pinned, throughs
from braid.tables.together import refuse_lost_base
from braid.tables.view_tables import LATE, ViewTables, base_columns, bounds


def beyond(tail: DataFrame, through: dict[date, datetime]) -> DataFrame:
    """The tail's rows that the base does not cover."""
    if not through:
        return tail
    covered = days_and_moments(tail.sparkSession, through, "_through")
    joined = tail.join(F.broadcast(covered), on="day", how="left")
    # As `braid.cut.is_beyond` says of one row.
    open_rows = joined.where(F.col("_through").isNull() | (F.col("epoch") > F.col("_through")))
    return open_rows.select(*tail.columns)


def base_states(view: View, base: DataFrame) -> DataFrame:
    """The base's states, without the rows that only say that a day had no events."""
    return base.where(f"{bounds(view)[0]} is not null").select(*base_columns(view))


def served_states(
    spark: SparkSession,
    view: View,
    tables: ViewTables,
    cut: datetime | Mapping[date, datetime] | None = None,
) -> DataFrame:
    """One state per (day, pane, keys), up to a cut where one is given, or of some days up to the cut of each.

    The tail is pinned before the base. The other way round, a publish between the two would take rows out of the tail
    that the older base does not have.
    """
    refuse_lost_base(tables)
    tail = pinned(spark, tables.tail)
    base = pinned(spark, tables.base)
    if isinstance(cut, Mapping):
        cuts = F.broadcast(days_and_moments(spark, cut, "_cut"))
        tail = tail.join(cuts, on="day", how="inner").where("epoch <= _cut").select(*tail.columns)
        base = base.where(F.col("day").isin(list(cut)))
    elif cut is not None:
        tail = tail.where(F.col("epoch") <= F.lit(cut))
    open_rows = beyond(tail, throughs(base))
    columns = ["day", *bounds(view), *view.keys, *state_columns(view), LATE]
    return merge(view, base_states(view, base).select(*columns).unionByName(open_rows.select(*columns)))


def merged(
    spark: SparkSession,
    view: View | str,
    grain: str | None = None,
    settings: Settings | None = None,
) -> DataFrame:
    """A view as it is served, for those who work in Spark: keys, window_start and window_end, and its numbers.

    `braid.merged(spark, "page_traffic", grain="1 hour")`. It reads the version that is active now, each event from one
    side of its day's cut; the tables it was made from stay as they were, whoever writes meanwhile.
    """
    from braid.deploy.store import load

    here, name = settings or current_settings(), view if isinstance(view, str) else view.name
    version = load(here, name).active
    if version is None:
        raise BraidError(
            f"view {name!r} is not deployed, so it has no numbers yet: run `braid stream {name}`."
        )
    tables = ViewTables(here, name, version.number)
    return present(version.view, served_states(spark, version.view, tables), grain)
