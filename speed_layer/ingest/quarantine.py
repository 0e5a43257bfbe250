"""Sends rejected records through ingest again: by the inbox that ingest reads, never beside it."""

from datetime import UTC, datetime

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from braid.errors import BraidError
from braid.log import contents as logs
from braid.log.table import Log
from braid.runtime import documents
from speed_layer.ingest.records import INBOX_SCHEMA


def requeued(spark: SparkSession, log: Log) -> DataFrame:
    """Everything that was ever put into the inbox."""
    if not documents.exists(log.inbox):
        return spark.createDataFrame([], INBOX_SCHEMA)
    return spark.read.schema(INBOX_SCHEMA).option("recursiveFileLookup", True).json(log.inbox)


def pending(spark: SparkSession, log: Log, reason: str | None = None) -> DataFrame:
    """Rejected records that have not been requeued, of one reason (or all that begin with it)."""
    rejected = logs.read(spark, log).where("_error is not null")
    if reason is not None:
        rejected = rejected.where(F.startswith("_error", F.lit(reason)))
    sent = requeued(spark, log).selectExpr("origin_partition as _partition", "origin_offset as _offset")
    return rejected.join(sent, on=["_partition", "_offset"], how="left_anti")


def requeue(spark: SparkSession, log: Log, reason: str | None = None, now: datetime | None = None) -> int:
    """Sends pending records to the inbox, each once for ever: one file, which is there or is not."""
    batches = [name for name in documents.names(log.inbox) if name.startswith("batch-")]
    last = requeued(spark, log).agg(F.max("number")).first()
    base = 0 if last is None or last[0] is None else last[0] + 1
    order = Window.orderBy("_partition", "_offset")
    records = pending(spark, log, reason).select(
        (F.row_number().over(order) - 1 + F.lit(base)).cast("bigint").alias("number"),
        F.col("_partition").alias("origin_partition"),
        F.col("_offset").alias("origin_offset"),
        F.base64("_raw").alias("value"),
        F.lit(now or datetime.now(UTC)).alias("requeued"),
    )
    count = records.count()
    if count:
        try:
            records.coalesce(1).write.mode("errorifexists").json(f"{log.inbox}/batch-{len(batches):06}")
        except AnalysisException:
            raise BraidError(
                "another requeue ran at the same moment: look at what it did, then try again."
            ) from None
    return count
