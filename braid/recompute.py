"""The one truth: a view's states computed from the log alone, up to a cut, with every event once.

The batch layer publishes this, and everything that is served is compared with it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.define.view import View
from braid.log.contents import read_accepted
from braid.log.events import first_copies, view_events
from braid.log.lookups import LookupTables
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.states.spark import prepare
from braid.states.spark_calendar import days_and_moments, on_days, timestamp
from braid.tables.view_tables import LATE, base_columns


@dataclass(frozen=True)
class Recomputed:
    """The states of some days of a view at one cut, and the events that they were computed from."""

    states: DataFrame
    events: DataFrame
    lookups: LookupTables


def truth(
    spark: SparkSession,
    settings: Settings,
    view: View,
    cut: datetime | None = None,
    days: Collection[date] | Mapping[date, datetime] | None = None,
    from_day: date | None = None,
) -> DataFrame:
    """The states that a view should have, up to a cut, of all its days or of some; of days with cuts up to those."""
    rows = accepted_rows(spark, Log(view.source, settings), cut, days, from_day)
    firsts, lookups = first_copies(rows, view.source), LookupTables(spark, settings, cut)
    if isinstance(days, Mapping):
        return recompute_days(view, firsts, lookups, days).states
    return recompute(view, firsts, lookups).states


def day_rows(spark: SparkSession, log: Log, days: Collection[date], cut: datetime) -> DataFrame:
    """The accepted rows of some days up to a cut, without duplicates that the horizon of ingest had let pass."""
    return first_copies(accepted_rows(spark, log, cut, days), log.source)


def accepted_rows(
    spark: SparkSession,
    log: Log,
    cut: datetime | None = None,
    days: Collection[date] | None = None,
    from_day: date | None = None,
) -> DataFrame:
    """The log's rows that were not rejected, copies and all."""
    conditions = ["true"]
    if cut is not None:
        conditions.append(f"_epoch <= {timestamp(cut)}")
    if days is not None:
        conditions.append(on_days(days))
    if from_day is not None:
        conditions.append(f"day >= date'{from_day}'")
    return read_accepted(spark, log, days).where(" and ".join(conditions))


def recompute(view: View, rows: DataFrame, lookups: LookupTables) -> Recomputed:
    """The states of a view from rows of its log up to the cut of its lookups, which is what they then cover."""
    cut = lookups.cut
    upto = rows if cut is None else rows.where(f"_epoch <= {timestamp(cut)}")
    events = view_events(view, upto, lookups.table_of)
    # What came late is in the numbers: a publish settles the day, and only what comes after it is a revision.
    settled = {LATE: F.lit(0).cast("bigint"), "through": F.lit(cut).cast("timestamp")}
    states = prepare(view, events).withColumns(settled)
    return Recomputed(states.select(*base_columns(view)), events, lookups)


def recompute_days(
    view: View, rows: DataFrame, lookups: LookupTables, cuts: Mapping[date, datetime]
) -> Recomputed:
    """The same for days of which each has a cut of its own, with lookups as they were at one of them."""
    made = recompute(view, upto(rows, cuts), lookups)
    if set(cuts.values()) == {lookups.cut}:
        return made
    moments = F.broadcast(days_and_moments(rows.sparkSession, cuts, "_cut"))
    covering = made.states.join(moments, on="day", how="inner").withColumn("through", F.col("_cut"))
    return replace(made, states=covering.select(*base_columns(view)))


def upto(rows: DataFrame, cuts: Mapping[date, datetime]) -> DataFrame:
    """The log's rows of some days, of each day up to its own cut."""
    latest = max(cuts.values())
    if set(cuts.values()) == {latest}:
        return rows.where(f"_epoch <= {timestamp(latest)}")
    moments = F.broadcast(days_and_moments(rows.sparkSession, cuts, "_cut"))
    return rows.join(moments, on="day", how="inner").where("_epoch <= _cut").select(*rows.columns)
