"""Raw records with their place and arrival, from Kafka, from a folder of files, or from the inbox of requeued ones.

Every record has a place that is its own for ever: a Kafka partition and offset, a file and its line, or the
inbox and a number. Conservation is proved over places.
"""

import json
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from braid.define.derived.base import Derived
from braid.define.schema import quote
from braid.define.source import Source
from braid.log.inbox import INBOX_SCHEMA
from braid.log.table import INBOX_PARTITION, Log
from braid.runtime.kafka import spark_options
from braid.runtime.settings import Settings, bytes_of
from braid.tables.commits import Positions
from speed_layer.ingest.folders import WatchedFolder, known
from speed_layer.ingest.origin import folder_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

FILE_SCHEMA = "path string, modificationTime timestamp, length bigint, content binary"
# Spark ignores files that are older than the newest by more than this: to Braid an old file is as good as a new one.
NEVER = "36500d"
UNPACK = "braid_unpacked"
_DAMAGED = "unparsable: its file cannot be unpacked, or holds more than 512 MiB"
# Down to the microsecond; Spark's own choice ends at milliseconds.
WHOLE_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

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
        # The files of a derived one are Braid's own, one a micro-batch: what the log holds is needed there no more.
        clean = {"cleanSource": "delete" if isinstance(source, Derived) else "off"}
        arriving = _not_before(from_folder(spark.readStream.options(**portions, **clean), log), start)
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


def from_folder(reader: "DataStreamReader | DataFrameReader", log: Log) -> DataFrame:
    """The records of all files in a source's folder: as they come, or as they are now, which the reader says."""
    source = log.source
    folder, pattern = folder_of(log)
    kind, schema = ("parquet", source.schema) if source.format == "parquet" else ("binaryFile", FILE_SCHEMA)
    files = reader.format(kind).schema(schema).option("pathGlobFilter", pattern).load(folder)
    return (from_rows if source.format == "parquet" else from_files)(files, source, known(log, folder))


def from_rows(files: DataFrame, source: Source, folder: WatchedFolder) -> DataFrame:
    """One record a row of a Parquet file, as the JSON that says the same; the place is the file and the row."""
    values = F.to_json(F.struct(*(F.col(quote(name)) for name in source.columns)), WHOLE_TIMES)
    return files.select(
        file_number(folder.named(_shown_path(F.col("_metadata.file_path")))).alias("_partition"),
        F.col("_metadata.row_index").alias("_offset"),
        F.current_timestamp().alias("_arrival"),
        F.encode(values, "UTF-8").alias("_value"),
        _not_refused(),
    )


def from_files(files: DataFrame, source: Source, folder: WatchedFolder) -> DataFrame:
    """One record a line. The place is the file (a hash of its path) and the line; blank lines are no records."""
    content, damaged = _unpacked(files, source)
    text = F.regexp_replace(F.decode(content, BYTES), f"^{MARK}", "")
    lines = F.when(damaged, F.array(F.decode(F.col("content"), BYTES))).otherwise(F.split(text, "\r?\n"))
    split = files.select("path", lines.alias("lines"), F.when(damaged, _DAMAGED).alias("_damaged"))
    header = _refused_header(source, F.col("lines")[0]) if source.format == "csv" else _not_refused()
    rows = split.select(
        file_number(folder.named(F.col("path"))).alias("_partition"),
        # When Braid saw it: the time of a file may have been copied along with it.
        F.current_timestamp().alias("_arrival"),
        F.coalesce("_damaged", header).alias("_refused"),
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


def _unpacked(files: DataFrame, source: Source) -> tuple[Column, Column]:
    """What is in files, whether packed or not, and whether one is packed and cannot be unpacked."""
    if not str(source.files).endswith((".gz", "*")):
        return F.col("content"), F.lit(False)
    files.sparkSession.udf.registerJavaFunction(UNPACK, "braid.Unpacked", BinaryType())
    packed = F.endswith(F.col("path"), F.lit(".gz"))
    content = F.when(packed, F.call_function(UNPACK, F.col("content"))).otherwise(F.col("content"))
    return content, packed & content.isNull()


def _shown_path(uri: Column) -> Column:
    """A file's path as `binaryFile` shows it: what is encoded in a URI is not, and a local one has one slash."""
    plain = F.url_decode(F.replace(uri, F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(plain, "^file:///", "file:/")


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
