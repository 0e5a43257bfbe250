"""Copies of an event in the log: of all rows with one event id, the first that was ingested counts."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from braid.define.schema import quote
from braid.define.source import Source

# The order in which copies of an event are told apart.
PLACE = ("_epoch", "_partition", "_offset")


def first_copies(rows: DataFrame, source: Source) -> DataFrame:
    """Of the rows of a day with one event id, the first that was ingested; rows without an id are all kept.

    A cut that is applied afterwards gives the same: whatever copy is before it, the first one is.
    """
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
