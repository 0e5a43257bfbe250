"""Ingest beside its limit and beside what one would write by hand, in one run: `python -m bench.ingest [--events N]`.

Catch-up: N events already in Kafka, events a second of
  - the limit: the Kafka source and from_json into a sink that does nothing;
  - Braid's ingest, with and without deduplication.
Live: 1,000 events a second, time of a warm micro-batch of
  - a native Delta sink of the same parsed events;
  - Braid's ingest.
The machine is noisy: read the ratios, not the numbers.
"""

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from bench.shared.common import (
    REQUESTS,
    ResultRow,
    create_topic,
    jvm_memory,
    own_broker,
    parsed_stream,
    program,
)
from bench.shared.load import sending
from braid.define.source import Source
from braid.produce.record import EVENT, Record
from braid.runtime.settings import Settings
from braid.runtime.spark import spark_session
from speed_layer.ingest.job import IngestJob

SOURCE = replace(
    REQUESTS, event_id="id", timezone="America/New_York",
    rules={"status is an HTTP code": "status between 100 and 599"},
)  # fmt: skip
LIVE_RATE = 1000
LIVE_BATCHES = 25
WARM_UP = 8


def fill(spark: Any, settings: Settings, topic: str, first: int, count: int) -> None:
    """Writes events with Spark itself: filling a topic is not what is measured."""
    rows = spark.range(first, first + count, numPartitions=4).selectExpr(
        "cast(id as binary) as key",
        """cast(concat(
            '{"id":"', id, '","time":"2024-03-0', 1 + id % 3, 'T', lpad(id % 24, 2, '0'), ':', lpad(id % 60, 2, '0'),
            ':00Z","host":"host', id % 5000, '.example.org","url":"/shuttle/missions/sts-', id % 70, '/page-', id % 900,
            '.html","status":200,"bytes":', id % 100000, '}'
        ) as binary) as value""",
    )
    rows.write.format("kafka").option("kafka.bootstrap.servers", settings.bootstrap).option(
        "topic", topic
    ).save()


def rate_of(query: Any) -> float:
    """Events a second of the micro-batches that read some, by the engine's own clock; starting up is not counted."""
    batches = [progress for progress in query.recentProgress if progress["numInputRows"] > 0]
    milliseconds = sum(progress["durationMs"]["triggerExecution"] for progress in batches)
    return float(sum(progress["numInputRows"] for progress in batches) / milliseconds * 1000)


def noop_rate(spark: Any, settings: Settings, scratch: Path) -> float:
    query = (
        parsed_stream(spark, settings, str(SOURCE.kafka_topic)).writeStream.format("noop").trigger(availableNow=True)
        .option("checkpointLocation", str(scratch / f"noop-{time.time_ns()}")).start()
    )  # fmt: skip
    query.awaitTermination()
    return rate_of(query)


def ingest_rate(spark: Any, settings: Settings, source: Source, events: int) -> float:
    for folder in ("log", "checkpoints", "inbox"):
        shutil.rmtree(settings.location(folder), ignore_errors=True)
    job = IngestJob(spark, settings, source=source)
    job.start(once=True)
    assert job.query is not None
    job.query.awaitTermination()
    found = spark.read.format("delta").load(job.log.table).count()
    assert found == events, f"{found} rows of {events}"
    return rate_of(job.query)


def steady_load(settings: Settings, topic: str) -> AbstractContextManager[None]:
    """Sends LIVE_RATE events a second until the block ends."""
    fields = {"time": "2024-03-08T12:00:00Z", "host": "h", "url": "/", "status": 200, "bytes": 1}
    records = (
        Record(str(number).encode(), json.dumps({"id": f"live-{number}"} | fields).encode(), EVENT)
        for number in count()
    )
    return sending(settings, topic, records, LIVE_RATE)


def batch_time(query: Any, wanted: int) -> float:
    """The median time of warm micro-batches, in milliseconds."""
    times: dict[int, int] = {}
    while len(times) < wanted:
        for progress in query.recentProgress:
            if progress["numInputRows"] > 0:
                times[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
        time.sleep(0.2)
        assert query.isActive, query.exception()
    return statistics.median([times[batch] for batch in sorted(times)][WARM_UP:])


def native_sink(spark: Any, settings: Settings, scratch: Path) -> float:
    stream = parsed_stream(spark, settings, "live").withColumn(
        "day", F.to_date(F.col("time").try_cast("timestamp"))
    )
    query = (
        stream.writeStream.format("delta").partitionBy("day").trigger(processingTime="1 second")
        .option("checkpointLocation", str(scratch / "native-checkpoint")).start(str(scratch / "native"))
    )  # fmt: skip
    try:
        return batch_time(query, LIVE_BATCHES + WARM_UP)
    finally:
        query.stop()


def braid_live(spark: Any, settings: Settings, source: Source) -> float:
    job = IngestJob(spark, settings, source=source)
    job.start(once=False)
    try:
        return batch_time(job.query, LIVE_BATCHES + WARM_UP)
    finally:
        job.stop()


def best(measure: Callable[[], float], runs: int) -> float:
    return max(measure() for _ in range(runs))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=2, help="the best of so many")


def measure_all(settings: Settings, scratch: Path, events: int, runs: int) -> list[ResultRow]:
    spark = spark_session(settings, "bench")
    plain = replace(SOURCE, event_id=None)
    for topic in (str(SOURCE.kafka_topic), "live"):
        create_topic(settings, topic)
    fill(spark, settings, str(SOURCE.kafka_topic), 0, events)
    noop_rate(spark, settings, scratch)
    limit = best(lambda: noop_rate(spark, settings, scratch), runs)
    without = best(lambda: ingest_rate(spark, settings, plain, events), runs)
    with_dedup = best(lambda: ingest_rate(spark, settings, SOURCE, events), runs)
    catch_up_memory = jvm_memory(spark)
    live = replace(SOURCE, name="live", kafka_topic="live")
    with steady_load(settings, "live"):
        native = native_sink(spark, settings, scratch)
        ours_plain = braid_live(spark, settings, replace(live, event_id=None, name="live_plain"))
        ours = braid_live(spark, settings, live)
    return [
        ResultRow("catch-up: Kafka + from_json, noop", f"{limit:,.0f}/s", "1"),
        ResultRow("catch-up: ingest without dedup", f"{without:,.0f}/s", f"{without / limit:.2f}", ">= 0.50"),
        ResultRow(
            "catch-up: ingest with dedup", f"{with_dedup:,.0f}/s", f"{with_dedup / limit:.2f}", ">= 0.35"
        ),
        ResultRow("live: native Delta sink", f"{native:,.0f} ms", "1"),
        ResultRow(
            "live: ingest without dedup", f"{ours_plain:,.0f} ms", f"{ours_plain / native:.2f}", "<= 0.50"
        ),
        ResultRow("live: ingest with dedup", f"{ours:,.0f} ms", f"{ours / native:.2f}"),
        ResultRow("memory of the driver after catch-up", f"{catch_up_memory:.1f} GiB", wanted="<= 4"),
    ]


def measure(folder: Path, options: argparse.Namespace) -> tuple[list[ResultRow], dict[str, Any]]:
    with own_broker(folder / "home") as settings:
        return measure_all(settings, folder, options.events, options.runs), {"events": options.events}


if __name__ == "__main__":
    program("ingest", __doc__, add_arguments, measure)
