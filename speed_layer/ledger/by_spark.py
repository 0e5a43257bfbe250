"""Looks up with Spark what became of places that a log lacks: records that only Spark can read, or very many."""

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.define.schema import quote
from braid.log import contents as logs
from braid.log.database import Place
from braid.log.table import INBOX_PARTITION, Log
from braid.runtime.spark import spark_session
from braid.tables.commits import Positions
from speed_layer.ingest import records
from speed_layer.ingest.origin import offsets
from speed_layer.ingest.parse import parse
from speed_layer.ledger.evidence import Evidence, close
from speed_layer.ledger.log_places import Consumed, Hole


def places(rows: DataFrame) -> frozenset[Place]:
    return _as_places(rows.select("_partition", "_offset").toPandas())


def _as_places(found: Any) -> frozenset[Place]:
    return frozenset(zip(found["_partition"].tolist(), found["_offset"].tolist(), strict=True))


def from_broker(log: Log, holes: list[Hole]) -> Evidence:
    spark = _spark(log)
    rows = logs.read(spark, log)
    first, after = offsets(log.source, log.settings)
    ranges = spark.createDataFrame(holes, "_partition bigint, first bigint, last bigint")
    lacking = ranges.selectExpr("_partition", "explode(sequence(first, last)) as _offset").cache()
    try:
        starts, ends = _span(lacking, first, after)
        options = records.kafka_options(log.source, log.settings) | {
            "startingOffsets": json.dumps({log.source.kafka_topic: starts}),
            "endingOffsets": json.dumps({log.source.kafka_topic: ends}),
            "failOnDataLoss": "false",
        }
        at_broker = records.from_kafka(spark.read.format("kafka").options(**options).load())
        found = at_broker.join(lacking, on=["_partition", "_offset"], how="left_semi")
        duplicates, lost = _by_identity(log, rows, found)
        rest = places(lacking) - duplicates - lost
    finally:
        lacking.unpersist()
    deleted = frozenset(place for place in rest if place[1] < first.get(str(place[0]), 0))
    return Evidence(duplicates, lost, deleted, rest - deleted)


def from_files(log: Log) -> tuple[Consumed, Evidence, int]:
    spark = _spark(log)
    rows = logs.read(spark, log)
    held = rows.where(f"_partition <> {INBOX_PARTITION}")
    lines = records.from_folder(spark.read, log)
    lacking = lines.join(held.select("_partition", "_offset"), on=["_partition", "_offset"], how="left_anti")
    return close(_lines(held), _lines(lines), *_by_identity(log, rows, lacking))


def _spark(log: Log) -> SparkSession:
    return spark_session(log.settings, "braid ledger")


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
