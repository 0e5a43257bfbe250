"""The inbox of a log: a folder that ingest reads beside its topic or files, for what does not come from there.

Records that were rejected once are sent again through it, and batch hands in what the stream of a derived source
missed.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from braid.errors import BraidError
from braid.log.table import Log
from braid.runtime import documents
from braid.runtime.lock import alone

INBOX_SCHEMA = (
    "number bigint, origin_partition bigint, origin_offset bigint, value string, requeued timestamp"
)


def everything(spark: SparkSession, log: Log) -> DataFrame:
    """All that was ever put into the inbox."""
    if not documents.exists(log.inbox):
        return spark.createDataFrame([], INBOX_SCHEMA)
    return spark.read.schema(INBOX_SCHEMA).option("recursiveFileLookup", True).json(log.inbox)


@contextmanager
def alone_with(log: Log) -> Iterator[None]:
    """Who looks for what is to be put in, and puts it in, holds the inbox meanwhile: nobody else does the same."""
    with alone(log.settings, f"inbox-{log.source.name}", math.inf):
        yield


def put(
    spark: SparkSession, log: Log, rows: DataFrame, order: list[str | Column], now: datetime | None = None
) -> int:
    """Adds rows of (origin_partition, origin_offset, value) in one folder, which is there or is not; how many."""
    batches = [name for name in documents.names(log.inbox) if name.startswith("batch-")]
    last = everything(spark, log).agg(F.max("number")).first()
    base = 0 if last is None or last[0] is None else last[0] + 1
    number = (F.row_number().over(Window.orderBy(*order)) - 1 + F.lit(base)).cast("bigint")
    records = rows.select(
        number.alias("number"),
        "origin_partition",
        "origin_offset",
        F.base64("value").alias("value"),
        F.lit(now or datetime.now(UTC)).alias("requeued"),
    )
    count = records.count()
    if count:
        try:
            records.coalesce(1).write.mode("errorifexists").json(f"{log.inbox}/batch-{len(batches):06}")
        except AnalysisException:
            raise BraidError(
                f"somebody else put records into the inbox of {log.source.name!r} at the same moment: look at what "
                "that was, then try again."
            ) from None
    return count
