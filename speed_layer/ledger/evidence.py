"""What became of the places that the log lacks, looked up where the records came from.

A record there whose id the log holds is a duplicate; one whose id it does not hold is lost.
"""

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from braid.define.schema import quote
from braid.log.table import Log
from braid.tables.commits import Positions
from speed_layer.ingest import records
from speed_layer.ingest.folders import known
from speed_layer.ingest.parse import parse
from speed_layer.ingest.topics import offsets

Place = tuple[int, int]  # partition, offset
Consumed = dict[int, tuple[int, int]]  # partition -> from (inclusive), to (exclusive)


@dataclass(frozen=True)
class Evidence:
    """The places that the log lacks, by what was found there: `deleted` is gone from the broker, a `marker` is an
    offset that Kafka itself took (a transaction's end, a compacted record)."""

    duplicates: frozenset[Place]
    lost: frozenset[Place]
    deleted: frozenset[Place]
    markers: frozenset[Place]


def places(rows: DataFrame) -> frozenset[Place]:
    return _as_places(rows.select("_partition", "_offset").toPandas())


def _as_places(found: Any) -> frozenset[Place]:
    return frozenset(zip(found["_partition"].tolist(), found["_offset"].tolist(), strict=True))


def missing(held: DataFrame, consumed: Consumed) -> DataFrame:
    """The consumed offsets that the log lacks, one a row."""
    fences = [(p, fence) for p, (start, end) in consumed.items() for fence in (start - 1, end)]
    outer = held.sparkSession.createDataFrame(fences, "_partition bigint, _offset bigint")
    present = held.select("_partition", "_offset").unionByName(outer)
    before = F.lag("_offset").over(Window.partitionBy("_partition").orderBy("_offset"))
    holes = present.withColumn("_before", before).where("_offset > _before + 1")
    return holes.selectExpr("_partition", "explode(sequence(_before + 1, _offset - 1)) as _offset")


def from_broker(log: Log, rows: DataFrame, lacking: DataFrame) -> Evidence:
    first, after = offsets(log.source, log.settings)
    lacking = lacking.cache()
    try:
        starts, ends = _span(lacking, first, after)
        options = records.kafka_options(log.source, log.settings) | {
            "startingOffsets": json.dumps({log.source.kafka_topic: starts}),
            "endingOffsets": json.dumps({log.source.kafka_topic: ends}),
            "failOnDataLoss": "false",
        }
        at_broker = records.from_kafka(rows.sparkSession.read.format("kafka").options(**options).load())
        found = at_broker.join(lacking, on=["_partition", "_offset"], how="left_semi")
        duplicates, lost = _by_identity(log, rows, found)
        rest = places(lacking) - duplicates - lost
    finally:
        lacking.unpersist()
    deleted = frozenset(place for place in rest if place[1] < first.get(str(place[0]), 0))
    return Evidence(duplicates, lost, deleted, rest - deleted)


def from_files(log: Log, rows: DataFrame, held: DataFrame) -> tuple[Consumed, Evidence, int]:
    """Files as they are now against the log: (consumed, evidence, lines of files that the log has never seen)."""
    folder, pattern = records.folder_of(log.source)
    files = held.sparkSession.read.format("binaryFile").option("pathGlobFilter", pattern).load(folder)
    lines = records.from_files(files, log.source, known(log, folder))
    lacking = lines.join(held.select("_partition", "_offset"), on=["_partition", "_offset"], how="left_anti")
    duplicates, lost = _by_identity(log, rows, lacking)
    in_log = _lines(held)
    unread = frozenset(place for place in lost if place[0] not in in_log)
    # A file that was removed since can only be counted by what the log holds of it.
    present = in_log | _lines(lines)
    consumed = {p: (0, present[p]) for p in {*in_log, *(p for p, _ in duplicates)} - {p for p, _ in unread}}
    return consumed, Evidence(duplicates, lost - unread, frozenset(), frozenset()), len(unread)


def _lines(rows: DataFrame) -> dict[int, int]:
    return {row._partition: row["count"] for row in rows.groupBy("_partition").count().collect()}


def _span(lacking: DataFrame, first: Positions, after: Positions) -> tuple[Positions, Positions]:
    """The least that must be read of each partition to see what is missing: from, and up to."""
    spans = lacking.groupBy("_partition").agg(F.min("_offset").alias("low"), F.max("_offset").alias("high"))
    wanted = {str(row._partition): (row.low, row.high + 1) for row in spans.collect()}
    starts = {p: min(max(wanted.get(p, (0, 0))[0], first[p]), after[p]) for p in first}
    ends = {p: max(starts[p], min(wanted.get(p, (0, 0))[1], after[p])) for p in first}
    return starts, ends


def _by_identity(log: Log, rows: DataFrame, found: DataFrame) -> tuple[frozenset[Place], frozenset[Place]]:
    """(duplicates, lost) among records that the log lacks: their ids are in it, or not."""
    if log.source.event_id is None:
        return frozenset(), places(found)
    identity = quote(log.source.event_id)
    parsed = parse(log.source, found).selectExpr("_partition", "_offset", "_error", f"{identity} as _id")
    held = (
        rows.where("_error is null")
        .selectExpr(f"{identity} as _id")
        .distinct()
        .withColumn("_held", F.lit(True))
    )
    judged = parsed.join(held, on="_id", how="left").withColumn(
        "twin", F.expr("_error is null and _held is not null")
    )
    rows_found = judged.select("_partition", "_offset", "twin").toPandas()
    return _as_places(rows_found[rows_found["twin"]]), _as_places(rows_found[~rows_found["twin"]])
