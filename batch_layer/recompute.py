"""From the log to the states of days, exactly: up to a cut, every event id once, one scan for all views of a source."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

from batch_layer.lookups import LookupsAsOf
from braid.define.schema import quote
from braid.define.source import Source
from braid.define.view import View
from braid.log.events import view_events
from braid.log.table import Log, read
from braid.runtime.frames import timestamp
from braid.runtime.settings import Settings
from braid.states.spark import prepare
from braid.tables.view_tables import LATE, base_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The order in which copies of an event are told apart: the first that was ingested counts.
PLACE = ("_epoch", "_partition", "_offset")


@dataclass(frozen=True)
class Recomputed:
    """The states of some days of a view at one cut, and the events that they were computed from."""

    states: "DataFrame"
    events: "DataFrame"
    lookups: LookupsAsOf


def day_rows(spark: "SparkSession", log: Log, days: Iterable[date], cut: datetime) -> "DataFrame":
    """The accepted rows of some days up to a cut, without duplicates that the horizon of ingest had let pass."""
    rows = read(spark, log).where(f"{on_days(days)} and _error is null and _epoch <= {timestamp(cut)}")
    return first_copies(rows, log.source)


def first_copies(rows: "DataFrame", source: Source) -> "DataFrame":
    """Of the rows of a day with one event id, the first that was ingested; rows without an id are all kept.

    A cut that is applied afterwards gives the same: whatever copy is before it, the first one is.
    """
    from pyspark.sql import functions as F

    if source.event_id is None:
        return rows
    event_id = F.col(quote(source.event_id))
    copies = (
        rows.where(event_id.isNotNull())
        .groupBy("day", event_id.alias("_id"))
        .agg(F.count(F.lit(1)).alias("_copies"), F.min(F.struct(*PLACE)).alias("_first"))
        .where("_copies > 1")
        .drop("_copies")
        .withColumnRenamed("day", "_day")
    )
    same = (rows["day"] == copies["_day"]) & (rows[quote(source.event_id)] == copies["_id"])
    joined = rows.join(copies, on=same, how="left")
    first = F.col("_first").isNull() | (F.struct(*PLACE) == F.col("_first"))
    return joined.where(first).select(*rows.columns)


def recompute(
    spark: "SparkSession", settings: Settings, view: View, rows: "DataFrame", cut: datetime
) -> Recomputed:
    """The states of a view from rows of its log: the columns of its base, with the cut as `through`."""
    from pyspark.sql import functions as F

    lookups = LookupsAsOf(spark, settings, cut)
    upto = rows.where(f"_epoch <= {timestamp(cut)}")
    events = view_events(view, upto, lookups.table_of)
    # What came late is in the numbers: a publish settles the day, and only what comes after it is a revision.
    states = prepare(view, events).withColumns({LATE: F.lit(0).cast("bigint"), "through": F.lit(cut)})
    return Recomputed(states.select(*base_columns(view)), events, lookups)


def log_columns(source: Source) -> list[str]:
    """What views and expectations may read of the log: all but the bytes of rejected records."""
    added = ("_partition", "_offset", "_arrival", "_epoch", "_error", "day")
    return [quote(name) for name in (*source.columns, *added)]


def on_days(days: Iterable[date]) -> str:
    """A condition that prunes the log's partitions."""
    dates = ", ".join(f"date'{day}'" for day in sorted(days))
    return f"day in ({dates})"
