"""Recomputes all days, and dies at one named point: `python -m tests.faults.die_in_batch DEFINITIONS POINT`."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from batch_layer import days, publish, run, tasks
from batch_layer.gates import data_docs
from batch_layer.tasks import Asked
from braid.define.loading import load_definitions
from braid.runtime.settings import load_settings
from braid.runtime.spark import spark_session
from tests.faults.die_at import once_files_are_written

POINTS = (
    "in the middle of a publish",
    "after the commit and before its record",
    "between two portions of days",
    "before the Data Docs",
)
# With the events of the test, two of its three days.
PORTION = 120


def main(definitions: str, point: str) -> None:
    settings = load_settings()
    spark = spark_session(settings, "braid that dies")
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]

    def die() -> None:
        for process in (jvm, os.getpid()):
            os.kill(process, signal.SIGKILL)

    original = publish._replace

    def wrapped(spark: Any, seen: Any, *others: Any) -> None:
        if point == POINTS[0]:
            once_files_are_written(Path(seen.location), die)
        original(spark, seen, *others)
        if point in POINTS[:2]:
            die()

    publish._replace = wrapped
    if point == POINTS[2]:
        tasks.MOST_EVENTS = PORTION
        write = days.write_days
        days.write_days = lambda *given: (write(*given), die())[0]
    if point == POINTS[3]:
        data_docs.build = lambda *given, **named: die()  # type: ignore[assignment, return-value]
    views = list(load_definitions(definitions).views.values())
    run.run(lambda: spark, settings, views, Asked(force=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
