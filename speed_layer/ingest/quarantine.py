"""Sends rejected records through ingest again: by the inbox that ingest reads, never beside it."""

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.log import contents as logs
from braid.log import inbox
from braid.log.table import Log


def pending(spark: SparkSession, log: Log, reason: str | None = None) -> DataFrame:
    """Rejected records that have not been requeued, of one reason (or all that begin with it)."""
    rejected = logs.read(spark, log).where("_error is not null")
    if reason is not None:
        rejected = rejected.where(F.startswith("_error", F.lit(reason)))
    sent = inbox.everything(spark, log).selectExpr(
        "origin_partition as _partition", "origin_offset as _offset"
    )
    return rejected.join(sent, on=["_partition", "_offset"], how="left_anti")


def requeue(spark: SparkSession, log: Log, reason: str | None = None, now: datetime | None = None) -> int:
    """Sends pending records to the inbox, each once for ever."""
    with inbox.alone_with(log):
        records = pending(spark, log, reason).select(
            F.col("_partition").alias("origin_partition"),
            F.col("_offset").alias("origin_offset"),
            F.col("_raw").alias("value"),
        )
        return inbox.put(spark, log, records, ["origin_partition", "origin_offset"], now)
