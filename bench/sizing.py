"""Whether the formulas of docs/operations/sizing.md hold: `python -m bench.sizing [--events N]`.

- events that a core ingests in a second, by processor time;
- bytes of the log and of the deduplication state, for each event;
- ids in the state under a steady load: events a second x 4 horizons;
- rows and files of a tail: (epochs x groups) and one file for each closed epoch.
"""

import argparse
import statistics
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.ingest import LIVE_RATE, SOURCE, fill, ingest_rate, steady_load
from bench.scale import processor_time
from bench.shared.common import (
    BY_PAGE,
    REQUESTS,
    ResultRow,
    bytes_on_disk,
    create_topic,
    own_broker,
    program,
    settings_at,
)
from bench.shared.made_tables import MadeLog
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.runtime.spark import spark_session
from braid.tables.view_tables import ViewTables
from speed_layer.ingest.job import IngestJob
from speed_layer.jobs.engine import stream

TRACK_ROWS = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
HORIZON = 3
EPOCHS, EVENTS_AN_EPOCH = 8, 20_000


def at_rest(spark: Any, settings: Settings, events: int) -> tuple[float, float]:
    """Bytes on disk for each event: of the log's files, and of the state with its ids."""
    create_topic(settings, str(SOURCE.kafka_topic))
    fill(spark, settings, str(SOURCE.kafka_topic), 0, events)
    job = IngestJob(spark, settings, source=SOURCE)
    job.start(once=True)
    assert job.query is not None
    job.query.awaitTermination()
    log = bytes_on_disk(Path(job.log.table).rglob("*.parquet"))
    state = bytes_on_disk(Path(job.log.checkpoint, "state").rglob("*"))
    return log / events, state / events


def events_a_core(spark: Any, settings: Settings, events: int) -> float:
    """What more events cost in processor time, once the engine is warm: what is fixed is in both runs."""
    less = cost_of(spark, settings, events)
    fill(spark, settings, str(SOURCE.kafka_topic), events, 3 * events)
    return 3 * events / (cost_of(spark, settings, 4 * events) - less)


def cost_of(spark: Any, settings: Settings, events: int) -> float:
    began = processor_time(settings)
    ingest_rate(spark, settings, SOURCE, events)
    return processor_time(settings) - began


def remembered(spark: Any, settings: Settings) -> float:
    """How many ids the state holds once as many are forgotten as come; the median over some batches."""
    create_topic(settings, "live")
    live = replace(SOURCE, name="live", kafka_topic="live", dedup_horizon=f"{HORIZON} seconds")
    job = IngestJob(spark, settings, source=live)
    with steady_load(settings, "live"):
        job.start(once=False)
        try:
            # Twice as long as the first id is kept: what was there at the start is gone.
            time.sleep(8 * HORIZON)
            found = {}
            until = time.monotonic() + 4 * HORIZON
            while time.monotonic() < until:
                progress = job.progress()
                found[progress["batchId"]] = sum(one["numRowsTotal"] for one in progress["stateOperators"])
                time.sleep(0.2)
        finally:
            job.stop()
    return float(statistics.median(found.values()))


def tail(spark: Any, folder: Path) -> dict[str, float]:
    """A tail of some closed epochs, as a day of a lambda view has before it is published."""
    settings = settings_at(folder)
    made = MadeLog(spark, Log(REQUESTS, settings))
    made.create()
    minute = timedelta(minutes=1)
    made.commit(0, 10, 0, timedelta(0), minute)
    made.close(1)
    stream(spark, [BY_PAGE], settings, only=True, once=True)
    for epoch in range(2, EPOCHS + 2):
        made.commit(epoch * EVENTS_AN_EPOCH, EVENTS_AN_EPOCH, epoch, epoch * minute, minute)
    made.close(EPOCHS + 2)
    stream(spark, [BY_PAGE], settings, only=True, once=True)
    tables = ViewTables(settings, BY_PAGE.name, 1)
    rows = spark.read.format("delta").load(tables.tail)
    log = spark.read.format("delta").load(Log(REQUESTS, settings).table)
    groups = (
        log.selectExpr("_epoch", "url", "date_trunc('minute', time)").distinct().groupBy("_epoch").count()
    )
    (mean,) = groups.where("count > 10").selectExpr("avg(count)").first()
    files = [Path(file.removeprefix("file:")) for file in rows.inputFiles()]
    return {
        "rows": rows.count(),
        "groups": mean,
        "files": len(files),
        "bytes": bytes_on_disk(files) / rows.count(),
    }


def measure_all(settings: Settings, folder: Path, events: int) -> tuple[list[ResultRow], dict[str, Any]]:
    spark = spark_session(settings, "bench")
    spark.conf.set(TRACK_ROWS, "true")
    log, state = at_rest(spark, settings, events)
    rate = events_a_core(spark, settings, events)
    ids, wanted_ids = remembered(spark, settings), LIVE_RATE * 4 * HORIZON
    found = tail(spark, folder / "tail")
    wanted_rows = EPOCHS * found["groups"]
    rows = [
        ResultRow("ingest with deduplication: events a second of a core", f"{rate:,.0f}"),
        ResultRow("log: bytes an event", f"{log:.0f}"),
        ResultRow("deduplication: bytes an id, on disk", f"{state:.0f}"),
        ResultRow(
            f"deduplication: ids, {LIVE_RATE:,}/s, horizon of {HORIZON} s", f"{ids:,.0f}",
            f"{ids / wanted_ids:.2f}", f"{wanted_ids:,}",
        ),
        ResultRow(
            f"tail: rows of {EPOCHS} epochs", f"{found['rows']:,.0f}", f"{found['rows'] / wanted_rows:.2f}",
            f"{wanted_rows:,.0f}",
        ),
        ResultRow("tail: files", f"{found['files']}", f"{found['files'] / EPOCHS:.2f}", f"{EPOCHS}"),
        ResultRow("tail: bytes a row", f"{found['bytes']:.0f}"),
    ]  # fmt: skip
    return rows, {"rate": rate, "log": log, "state": state, "ids": ids, "tail": found}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, default=300_000)


def measure(folder: Path, options: argparse.Namespace) -> tuple[list[ResultRow], dict[str, Any]]:
    with own_broker(folder / "home") as settings:
        return measure_all(settings, folder, options.events)


if __name__ == "__main__":
    program("sizing", __doc__, add_arguments, measure)
