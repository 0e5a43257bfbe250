"""What a backfill costs beside a plain PySpark job: `python -m bench.backfill [--days N] [--events N] [--stream]`.

The plain job is what one would write by hand: the first copy of each event, three views, Delta tables with a partition
for each day. Braid does the same for the same log with gates, audits and publishing, and with --stream it also compares
what is published with what streams had served. Each is a process of its own, from its start to its end, so that both
pay for Spark; then both are done again in one session, in turn. Then a day, some days and parts of the range: what a
day costs must not grow with their number. Jobs are Spark's. Read the ratios, of which each is of the best of three.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from batch_layer.plan import Days
from batch_layer.run import run
from batch_layer.tasks import Asked
from bench.shared.common import ResultRow, arguments, jvm_memory, scratch_folder, settings_at, show
from bench.shared.made_tables import START, MadeLog
from bench.shared.three_views import VIEWS, requests
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.runtime.spark import spark_session

WANTED_OF_PLAIN, WANTED_OF_A_DAY = 2.0, 1.3
FIRST = START.date()
# So often each is done in the one session; and parts of the range, in days.
PAIRS, PARTS = 3, (100, 300)


def make_log(spark: SparkSession, settings: Settings, days: int, events: int) -> None:
    made = MadeLog(spark, Log(requests, settings))
    made.create()
    made.commit(0, days * events, 0, timedelta(0), timedelta(days=days) - timedelta(minutes=10))
    # As if it had been ingested when its last day was over: a scheduler waits for a day's end.
    made.close(int(timedelta(days=days) / settings.epoch) + 1)


def plain(spark: SparkSession, settings: Settings, folder: str) -> None:
    """The job that one would write by hand."""
    rows = spark.read.format("delta").load(Log(requests, settings).table).where("_error is null")
    order = Over.partitionBy("day", "id").orderBy("_epoch", "_partition", "_offset")
    events = rows.withColumn("_copy", F.row_number().over(order)).where("_copy = 1").persist()
    numbers = (F.count(F.lit(1)).alias("hits"), F.sum("bytes").alias("bytes"))
    hours = F.window("time", "1 hour", "15 minutes")
    for name, made in (
        ("by_page", events.groupBy("day", F.date_trunc("hour", "time").alias("hour"), "url").agg(*numbers)),
        ("visits", events.groupBy("day", F.session_window("time", "30 minutes"), "host").agg(*numbers)),
        ("by_status", events.groupBy("day", hours, "status").agg(*numbers)),
    ):
        _save(made, f"{folder}/{name}")
    events.unpersist()


def _save(rows: DataFrame, table: str) -> None:
    rows.repartition("day").write.format("delta").mode("overwrite").partitionBy("day").save(table)


def braid(spark: SparkSession, settings: Settings, days: int, views: int) -> None:
    asked = Asked(Days(FIRST, FIRST + timedelta(days=days - 1)), force=True)
    results = run(lambda: spark, settings, VIEWS[:views], asked)
    assert {result.outcome for result in results} == {"published"}, results[:3]


def jobs(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def one(home: Path, step: str) -> dict[str, Any]:
    """A step in this process: `plain`, `stream`, or `braid DAYS VIEWS`."""
    spark = spark_session(settings := settings_at(home), "bench")
    what, *numbers = step.split()
    began, before = time.monotonic(), jobs(spark)
    if what == "plain":
        plain(spark, settings, str(home / "plain"))
    elif what == "braid":
        braid(spark, settings, *map(int, numbers))
    elif what == "make":
        make_log(spark, settings, *map(int, numbers))
    else:
        from speed_layer.jobs.engine import stream

        stream(spark, VIEWS, settings, only=True, once=True)
    took = time.monotonic() - began
    # Of this process in KiB, at its highest so far.
    here = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": took, "jobs": jobs(spark) - before, "jvm": jvm_memory(spark), "python": here}


def alone(home: Path, *steps: str) -> list[dict[str, Any]]:
    """Steps in a process of their own; of the first one, all that the process took is counted."""
    began = time.monotonic()
    command = [sys.executable, "-m", "bench.backfill", "--home", str(home), "--steps", json.dumps(steps)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    found[0]["process"] = time.monotonic() - began
    return found


def measure(home: Path, options: argparse.Namespace) -> tuple[list[ResultRow], dict[str, Any]]:
    every, few = f"braid {options.days} 3", f"braid {options.few} 3"
    alone(home, f"make {options.days} {options.events}")
    if options.stream:
        alone(home, "stream")
    (cold_plain,), (cold,) = alone(home, "plain"), alone(home, every)
    parts = [days for days in PARTS if options.few < days < options.days]
    steps = ["plain", every, "braid 1 3", few, *(f"braid {days} 3" for days in parts)] * PAIRS
    warm = alone(home, *steps)
    best = {
        step: min(
            (one for said, one in zip(steps, warm, strict=True) if said == step),
            key=lambda one: one["seconds"],
        )
        for step in steps
    }

    def row(what: str, step: str, other: str = "", wanted: float | None = None) -> ResultRow:
        found = best[step]
        ratio = f"{found['seconds'] / best[other]['seconds']:.2f}" if other else "1"
        measured = f"{found['seconds']:.1f} s, {found['jobs']} jobs"
        return ResultRow(what, measured, ratio, f"<= {wanted}" if wanted else "")

    rows = [
        ResultRow(f"{options.days} days of {options.events:,} events, three views: the plain job",
            f"{cold_plain['process']:.1f} s, {cold_plain['jobs']} jobs", "1"),
        ResultRow("  braid, in a process of its own as well", f"{cold['process']:.1f} s, {cold['jobs']} jobs",
            f"{cold['process'] / cold_plain['process']:.2f}", f"<= {WANTED_OF_PLAIN}"),
        row("the plain job again, in one session with the next", "plain"),
        row("  braid", every, "plain", WANTED_OF_PLAIN),
        row("braid, one day of it", "braid 1 3"),
        row(f"  {options.few} days of it", few, "braid 1 3", WANTED_OF_A_DAY),
        *(row(f"  {days} days of it", f"braid {days} 3", "braid 1 3") for days in parts),
        ResultRow("memory: Spark's driver, and the most that its Python had",
            f"{warm[-1]['jvm']:.1f} GiB and {warm[-1]['python']:.1f} GiB"),
    ]  # fmt: skip
    return rows, {
        "cold": [cold_plain, cold],
        "warm": [{"step": step} | one for step, one in zip(steps, warm, strict=True)],
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=int, default=868)
    parser.add_argument("--events", type=int, default=250, help="of a day")
    parser.add_argument("--few", type=int, default=30, help="days beside one")
    parser.add_argument("--stream", action="store_true", help="let streams serve the days first")
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=json.loads, help=argparse.SUPPRESS)


def main() -> None:
    options = arguments(__doc__, add_arguments)
    if options.steps is not None:
        print(json.dumps([one(options.home, step) for step in options.steps]))
        return
    with scratch_folder() as folder:
        rows, details = measure(folder / "home", options)
    show("backfill", rows, details, options.json)


if __name__ == "__main__":
    main()
