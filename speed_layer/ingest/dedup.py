"""Drops events whose id arrived before, within the horizon, and never an event that is merely late."""

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from braid.define.durations import format_duration
from braid.define.schema import quote
from braid.define.source import Source


def present(floor: datetime, ahead: timedelta) -> Column:
    """The time of a batch: not before the floor, and moving on from there at the pace of the machine's clock.

    Held at the floor until the machine's clock is there, maybe for years, no id would ever be forgotten.
    """
    return F.greatest(F.current_timestamp() + F.lit(ahead), F.lit(floor))


def drop_duplicates(
    source: Source, rows: DataFrame, floor: datetime, ahead: timedelta = timedelta(0)
) -> DataFrame:
    """Accepted events with an id are deduplicated by it; rejected records and events without an id are all kept.

    The operator that remembers ids also drops what is behind its watermark, and nothing may be lost to that. So the
    time it sees is the arrival, held between the batch's clock and one horizon before it; and its watermark lags by two
    horizons. Then nothing can be behind it as long as the batch's clock never goes back: `floor` is the latest clock
    that was ever seen, `ahead` by how much the machine's was behind it when this query started.
    """
    if source.event_id is None:
        return rows
    now = present(floor, ahead)
    identity = F.when(F.col("_error").isNull(), F.col(quote(source.event_id)).cast("string"))
    place = F.concat_ws(":", F.lit("\u0000"), "_partition", "_offset")
    marked = rows.withColumn("_seen", F.least(F.greatest("_arrival", now - F.lit(source.horizon)), now))
    marked = marked.withColumn("_identity", F.coalesce(identity, place))
    remembered = marked.withWatermark("_seen", format_duration(2 * source.horizon))
    return remembered.dropDuplicatesWithinWatermark(["_identity"]).drop("_seen", "_identity")
