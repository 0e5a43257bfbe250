"""The rows of a log that a comparison is about, and the copies among them that a stream counts and a batch does not."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from braid.define.schema import quote
from braid.define.source import Source
from braid.define.view import View
from braid.log.events import TableOf, view_events
from braid.log.table import INBOX_PARTITION, Log, read
from braid.runtime.frames import timestamp
from serving_layer.accuracy.explain.causes import BEYOND, REQUEUED, WITHIN
from serving_layer.accuracy.explain.standing import DayStanding, Standing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PLACE = ("_epoch", "_partition", "_offset")


@dataclass(frozen=True)
class Copies:
    """Copies of events by their place: those that were served, with the reason why, and those that a base left out."""

    counted: "DataFrame"
    left_out: "DataFrame"


def rows_of(spark: "SparkSession", log: Log, standing: Standing) -> "DataFrame":
    """The accepted rows of each day up to the day's cut."""
    where = " or ".join(
        f"(_epoch <= {timestamp(cut)} and day in ({_dates(days)}))" for cut, days in standing.cuts.items()
    )
    return read(spark, log).where(f"_error is null and ({where})")


def copies(rows: "DataFrame", source: Source, standing: Standing) -> Copies | None:
    """None when there are none, as it should be: nothing more has to be computed then."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

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
    is_left_out = F.expr(_published(standing.days))
    return Copies(
        again.where(~is_left_out).select("_partition", "_offset", "_kind"),
        again.where(is_left_out).select("_partition", "_offset"),
    )


def placed_events(view: View, rows: "DataFrame", table_of: TableOf, *more: str) -> "DataFrame":
    """The view's events with their places as a struct in `_epoch`, the one column that comes along untouched."""
    from pyspark.sql import functions as F

    place = F.struct(*PLACE, "_arrival", *more)
    return view_events(view, rows.withColumn("_epoch", place), table_of).withColumnRenamed("_epoch", "_place")


def _kind(horizon: timedelta) -> "Column":
    """Why a copy was accepted: it came by the inbox, so late that its id was forgotten, or ingest lost its memory."""
    from pyspark.sql import functions as F

    pause = F.unix_micros("_arrival") - F.unix_micros("_before")
    beyond = pause > F.lit(horizon // timedelta(microseconds=1))
    return F.when(F.col("_partition") == INBOX_PARTITION, REQUEUED).when(beyond, BEYOND).otherwise(WITHIN)


def _published(days: Iterable[DayStanding]) -> str:
    """A condition on rows: a base has them, and its batch counted each event once."""
    parts = [
        f"(day = date'{one.day}' and _epoch <= {timestamp(one.deduplicated)})"
        for one in days
        if one.deduplicated is not None
    ]
    return " or ".join(parts) or "false"


def _dates(days: Iterable[object]) -> str:
    return ", ".join(f"date'{day}'" for day in days)
