"""Creates the table of a log, and reads what is in it."""

from collections.abc import Collection, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from braid.define.schema import quote
from braid.errors import BraidError
from braid.log.events import log_schema
from braid.log.table import Log, empty
from braid.runtime.object_store import hadoop_address
from braid.tables import delta_rs
from braid.tables.delta_log import Transaction

PROPERTIES = {
    "delta.appendOnly": "true",
    "delta.enableDeletionVectors": "false",
    # A commit every second: the one that pays for a checkpoint, and the one after it, take seconds.
    "delta.checkpointInterval": "300",
    # Longer than any pause of a stream that is to find its place again.
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
    # Readers prune by day, and days are partitions: statistics of columns would take a tenth of ingest's time.
    "delta.dataSkippingNumIndexedCols": "0",
}

# Up to so many bytes of files are read by this process: Spark takes as long for its first table, and for each hundred
# small files, as this takes for all of them.
SMALL = 32 << 20
# And so many rows: events that are much alike have few bytes in files, and many in memory.
MOST_ROWS = 1_000_000


def exists(spark: SparkSession, log: Log) -> bool:

    return bool(DeltaTable.isDeltaTable(spark, log.table))


def read(spark: SparkSession, log: Log) -> DataFrame:
    if not exists(spark, log):
        raise empty(log)
    return spark.read.format("delta").load(log.table)


def read_accepted(spark: SparkSession, log: Log, days: Collection[date] | None = None) -> DataFrame:
    """The rows of a log that were not rejected, of all days or of some."""
    small = _small(log, days)
    return spark.createDataFrame(small) if small is not None else read(spark, log).where("_error is null")


def _small(log: Log, days: Collection[date] | None) -> pa.Table | None:
    """The same in this process; None where it is too much for it, or has types that Arrow and Spark see differently."""
    table = delta_rs.open_table(log.table)
    if table is None or delta_rs.bytes_of(table, days) > SMALL:
        return None
    rows = delta_rs.rows_by_day(log.table)
    if sum(rows.get(day, 0) for day in (rows if days is None else days)) > MOST_ROWS:
        return None
    pinned, accepted = delta_rs.pin(table), pc.field("_error").is_null()
    columns = [column for column in pinned.schema if column.name != "_raw"]
    if any(pa.types.is_nested(column.type) for column in columns):
        return None
    if days is not None:
        accepted &= pc.field("day").isin(pa.array(days, pa.date32()))
    return pinned.rows([column.name for column in columns], accepted)


def read_commits(spark: SparkSession, log: Log, commits: Sequence[Transaction]) -> DataFrame:
    """The rows that some commits brought, from their own files: Delta would look the whole table up first."""
    files = [f"{log.table}/{file.path}" for commit in commits for file in commit.new]
    # A path is meant as it is written, also where a folder's name has brackets in it.
    reader = spark.read.option("basePath", log.table).option("__globPaths__", "false")
    return reader.schema(log_schema(log.source)).parquet(*files)


def create(spark: SparkSession, log: Log) -> None:
    """Creates the table, or adds the columns that its source has gained; a changed type is refused."""
    wanted = log_schema(log.source)
    if not exists(spark, log):
        table = (
            DeltaTable.create(spark)
            .location(hadoop_address(log.table))
            .addColumns(wanted)
            .partitionedBy("day")
        )
        for name, value in PROPERTIES.items():
            table = table.property(name, value)
        table.execute()
        return
    present = {column.name: column.dataType for column in spark.read.format("delta").load(log.table).schema}
    for column in wanted:
        found = present.get(column.name, column.dataType)
        if found != column.dataType:
            raise BraidError(
                f"source {log.source.name!r}: column {column.name!r} is {found.simpleString()} in the log and "
                f"{column.dataType.simpleString()} in the definition. The log is never rewritten: keep the old type, "
                "or give the new one another column name."
            )
    added = [column for column in wanted if column.name not in present]
    if added:
        columns = ", ".join(f"{quote(column.name)} {column.dataType.simpleString()}" for column in added)
        spark.sql(f"alter table delta.`{log.table}` add columns ({columns})")
