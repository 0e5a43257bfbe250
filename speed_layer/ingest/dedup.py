"""Drops events whose id arrived before, within the horizon, and never an event that is merely late."""

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from braid.define.durations import format_duration
from braid.define.schema import quote
from braid.define.source import Source


def drop_duplicates(source: Source, rows: DataFrame, floor: datetime) -> DataFrame:
    """Accepted events with an id are deduplicated by it; rejected records and events without an id are all kept.

    The operator that remembers ids also drops what is behind its watermark, and nothing may be lost to that. So the
    time it sees is the arrival, held between the batch's clock and one horizon before it; and its watermark lags by two
    horizons. Then nothing can be behind it as long as the batch's clock never goes back: `floor` is the latest clock
    that was ever seen.
    """
    if source.event_id is None:
        return rows
    now = F.greatest(F.current_timestamp(), F.lit(floor))
    identity = F.when(F.col("_error").isNull(), F.col(quote(source.event_id)).cast("string"))
    place = F.concat_ws(":", F.lit("\u0000"), "_partition", "_offset")
    marked = rows.withColumn("_seen", F.least(F.greatest("_arrival", now - F.lit(source.horizon)), now))
    marked = marked.withColumn("_identity", F.coalesce(identity, place))
    remembered = marked.withWatermark("_seen", format_duration(2 * source.horizon))
    return remembered.dropDuplicatesWithinWatermark(["_identity"]).drop("_seen", "_identity")
