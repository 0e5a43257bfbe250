"""Raw records with their place and arrival, from Kafka, from a folder of files, or from the inbox of requeued ones.

Every record has a place that is its own for ever: a Kafka partition and offset, a file and its line, or the
inbox and a number. Conservation is proved over places.
"""

import json

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.define.derived.base import Derived
from braid.define.source import Source
from braid.log.inbox import INBOX_SCHEMA
from braid.log.table import INBOX_PARTITION, Log
from braid.runtime.kafka import spark_options
from braid.runtime.settings import Settings, bytes_of
from braid.tables.commits import Positions
from speed_layer.ingest.folders import WatchedFolder, known
from speed_layer.ingest.origin import folder_of

FILE_SCHEMA = "path string, modificationTime timestamp, length bigint, content binary"
# Spark ignores files that are older than the newest by more than this: to Braid an old file is as good as a new one.
NEVER = "36500d"

# A file is cut into lines as bytes, each as the character of its number: what is not UTF-8 stays as it was written.
BYTES = "ISO-8859-1"
# UTF-8's byte order mark, in that form.
MARK = "\u00ef\u00bb\u00bf"


def stream(spark: SparkSession, log: Log, start: Positions | None) -> DataFrame:
    """Everything that arrives, from `start` where it is given: `_partition, _offset, _arrival, _value`, and `_refused`,
    the reason why a record is not even to be parsed."""
    source = log.source
    # A backlog is read in portions: as one micro-batch, a day of it would take hours, and begin anew when it is killed.
    portions = {"maxFileAge": NEVER, "maxBytesPerTrigger": str(bytes_of(log.settings.batch_bytes))}
    if source.kafka_topic:
        arriving = from_kafka(_kafka_stream(spark, source, log.settings, start))
    else:
        folder, pattern = folder_of(log)
        files = spark.readStream.format("binaryFile").schema(FILE_SCHEMA).option("pathGlobFilter", pattern)
        if isinstance(source, Derived):
            # Its files are Braid's own, one for each micro-batch: what the log holds is needed there no more.
            files = files.option("cleanSource", "delete")
        lines = from_files(files.options(**portions).load(folder), source, known(log, folder))
        arriving = _not_before(lines, start)
    inbox = spark.readStream.schema(INBOX_SCHEMA).options(**portions).option("recursiveFileLookup", True)
    return arriving.unionByName(_not_before(from_inbox(inbox.json(log.inbox)), start))


def from_kafka(rows: DataFrame) -> DataFrame:
    return rows.select(
        F.col("partition").cast("bigint").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_arrival"),
        F.col("value").alias("_value"),
        _not_refused(),
    )


def from_files(files: DataFrame, source: Source, folder: WatchedFolder) -> DataFrame:
    """One record a line. The place is the file (a hash of its path) and the line; blank lines are no records."""
    text = F.regexp_replace(F.decode(F.col("content"), BYTES), f"^{MARK}", "")
    split = files.select("path", F.split(text, "\r?\n").alias("lines"))
    rows = split.select(
        file_number(folder.named(F.col("path"))).alias("_partition"),
        # When Braid saw it: the time of a file may have been copied along with it.
        F.current_timestamp().alias("_arrival"),
        (_refused_header(source, F.col("lines")[0]) if source.format == "csv" else _not_refused()),
        F.posexplode("lines").alias("line", "text"),
    )
    rows = rows.where(F.trim("text") != "")
    if source.format == "csv":
        rows = rows.where((F.col("line") > 0) | ~_is_header(source, F.col("text")))
    return rows.select(
        "_partition",
        F.col("line").cast("bigint").alias("_offset"),
        "_arrival",
        F.encode(F.col("text"), BYTES).alias("_value"),
        "_refused",
    )


def from_inbox(rows: DataFrame) -> DataFrame:
    return rows.select(
        F.lit(INBOX_PARTITION).cast("bigint").alias("_partition"),
        F.col("number").alias("_offset"),
        F.col("requeued").alias("_arrival"),
        F.unbase64("value").alias("_value"),
        _not_refused(),
    )


def _not_refused() -> Column:
    return F.lit(None).cast("string").alias("_refused")


def _names(source: Source, line: Column) -> Column:
    cells = F.split(F.encode(line, BYTES).cast("string"), f"\\Q{source.delimiter}\\E")
    return F.transform(cells, lambda cell: F.lower(F.regexp_replace(F.trim(cell), '^"|"$', "")))


def _is_header(source: Source, line: Column) -> Column:
    return _names(source, line) == F.array(*(F.lit(name.lower()) for name in source.columns))


def _refused_header(source: Source, first: Column) -> Column:
    """A file whose header names other columns, or the same in another order, would be read wrongly, line by line."""
    known = F.array(*(F.lit(name.lower()) for name in source.columns))
    differs = F.arrays_overlap(_names(source, first), known) & ~_is_header(source, first)
    reason = f"unparsable: the header of its file is not {source.delimiter.join(source.columns)}"
    return F.when(differs, reason).alias("_refused")


def file_number(path: Column) -> Column:
    """A file as a partition number: not negative, and the same for ever."""
    return F.xxhash64(path).bitwiseAND(F.lit(2**63 - 1))


def kafka_options(source: Source, settings: Settings) -> dict[str, str]:
    return spark_options(settings) | {"subscribe": str(source.kafka_topic)}


def _kafka_stream(
    spark: SparkSession, source: Source, settings: Settings, start: Positions | None
) -> DataFrame:
    reader = spark.readStream.format("kafka").options(**kafka_options(source, settings))
    partitions = {p: offset for p, offset in (start or {}).items() if int(p) != INBOX_PARTITION}
    begin = json.dumps({source.kafka_topic: partitions}) if start else "earliest"
    reader = reader.option("startingOffsets", begin).option("maxOffsetsPerTrigger", settings.batch_records)
    # What retention deleted before it was read is gone whether the stream stops or not: the ledger reports it.
    reader = reader.option("failOnDataLoss", "false")
    return reader.load()


def _not_before(rows: DataFrame, start: Positions | None) -> DataFrame:
    """Leaves out what the log already holds, when a new checkpoint takes over from a lost one."""
    if not start:
        return rows
    taken = F.create_map(*[F.lit(value) for place in start.items() for value in (int(place[0]), place[1])])
    return rows.where(F.col("_offset") >= F.coalesce(taken[F.col("_partition")], F.lit(0)))
