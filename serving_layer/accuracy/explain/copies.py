"""The rows of a log that a comparison is about, and the copies among them that a stream counts and a batch does not."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from braid.define.schema import quote
from braid.define.source import Source
from braid.define.view import View
from braid.define.windows import Session
from braid.log.contents import read
from braid.log.events import PLACE, TableOf, view_events
from braid.log.table import INBOX_PARTITION, Log
from braid.parity import group_columns
from braid.states.spark_calendar import on_days, pane_start, timestamp
from braid.tables.view_tables import bounds
from serving_layer.accuracy.explain.comparable_days import ComparedDay, ComparedDays
from serving_layer.accuracy.report.values import BEYOND, COPIES, REQUEUED, WITHIN


@dataclass(frozen=True)
class Copies:
    """Copies of events by their place: those that were served, with the reason why, and those that a base left out."""

    counted: DataFrame
    left_out: DataFrame


def rows_of(spark: SparkSession, log: Log, known: ComparedDays) -> DataFrame:
    """The accepted rows of each day up to the day's cut."""
    where = " or ".join(
        f"(_epoch <= {timestamp(cut)} and {on_days(days)})" for cut, days in known.cuts.items()
    )
    return read(spark, log).where(f"_error is null and ({where})")


def copies(rows: DataFrame, source: Source, known: ComparedDays) -> Copies | None:
    """None when there are none, as it should be: nothing more has to be computed then."""
    if source.event_id is None:
        return None
    identity = F.col(quote(source.event_id))
    narrow = rows.where(identity.isNotNull()).select("day", identity.alias("_id"), *PLACE, "_arrival")
    twice = narrow.groupBy("day", "_id").count().where("count > 1").drop("count")
    in_order = Window.partitionBy("day", "_id").orderBy(*PLACE)
    numbered = narrow.join(twice, on=["day", "_id"], how="left_semi").select(
        "*", F.row_number().over(in_order).alias("_number"), F.lag("_arrival").over(in_order).alias("_before")
    )
    again = numbered.where("_number > 1").withColumn("_kind", _kind(source.horizon))
    if again.isEmpty():
        return None
    is_left_out = F.expr(_published(known.days))
    return Copies(
        again.where(~is_left_out).select("_partition", "_offset", "_kind"),
        again.where(is_left_out).select("_partition", "_offset"),
    )


def placed_events(view: View, rows: DataFrame, table_of: TableOf, *more: str) -> DataFrame:
    """The view's events with their places as a struct in `_epoch`, the one column that comes along untouched."""
    place = F.struct(*PLACE, "_arrival", *more)
    return view_events(view, rows.withColumn("_epoch", place), table_of).withColumnRenamed("_epoch", "_place")


def _kind(horizon: timedelta) -> Column:
    """Why a copy was accepted: it came by the inbox, so late that its id was forgotten, or ingest lost its memory."""
    pause = F.unix_micros("_arrival") - F.unix_micros("_before")
    beyond = pause > F.lit(horizon // timedelta(microseconds=1))
    return F.when(F.col("_partition") == INBOX_PARTITION, REQUEUED).when(beyond, BEYOND).otherwise(WITHIN)


def _published(days: Iterable[ComparedDay]) -> str:
    """A condition on rows: a base has them, and its batch counted each event once."""
    parts = [
        f"(day = date'{one.day}' and _epoch <= {timestamp(one.deduplicated)})"
        for one in days
        if one.deduplicated is not None
    ]
    return " or ".join(parts) or "false"


def counted_copies(
    view: View, rows: DataFrame, copies: Copies, states: DataFrame, table_of: TableOf
) -> DataFrame:
    """A row per group that has any, with a column for each kind."""
    served = rows.join(copies.counted, on=["_partition", "_offset"], how="inner")
    events = in_groups(view, placed_events(view, served, table_of, "_kind"), states)
    kinds = [F.count_if(F.col("_place._kind") == kind).alias(kind) for kind in COPIES]
    return events.groupBy(*group_columns(view)).agg(*kinds)


def in_groups(view: View, events: DataFrame, states: DataFrame) -> DataFrame:
    """Events with the pane, or the session of these states, that each is in."""
    time = F.col(view.source.event_time)
    if not isinstance(view.window, Session):
        return events.withColumn("pane", pane_start(time, view.window.pane, view.source.timezone))
    names = {name: f"_of_{name}" for name in ("day", *view.keys)}
    sessions = states.select(
        *(F.col(name).alias(other) for name, other in names.items()), *bounds(view)
    ).distinct()
    same = [F.col(name).eqNullSafe(F.col(other)) for name, other in names.items()]
    joined = events.join(sessions, on=[*same, time.between(F.col("first"), F.col("last"))], how="inner")
    return joined.drop(*names.values())
