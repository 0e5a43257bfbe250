"""Recomputes all days, and dies at one named point: `python -m tests.faults.die_in_batch DEFINITIONS POINT`."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from batch_layer import days, publish, run, tasks
from batch_layer.gates import data_docs
from batch_layer.tasks import Asked
from braid.define.loading import load_definitions
from braid.runtime.settings import load_settings
from braid.runtime.spark import spark_session
from braid.tables import conditional
from braid.tables.delta_log import commit_file
from tests.faults.die_at import once_files_are_written

POINTS = (
    "in the middle of a publish",
    "after the commit and before its record",
    "between two portions of days",
    "before the Data Docs",
    "in the middle of a publish by Spark",
)
# With the events of the test, two of its three days.
PORTION = 120


def files_without_a_commit(die: Callable[[], None]) -> Any:
    """Delta's writer up to its commit, whose number is taken until the process dies."""

    def write(table: DeltaTable, *given: Any, **named: Any) -> None:
        folder = Path(table.table_uri.removeprefix("file://"))
        files = set(folder.glob("*/*.parquet"))
        taken = folder / commit_file(table.version() + 1)
        taken.touch()
        with contextlib.suppress(DeltaError):
            write_deltalake(table, *given, **named)
        assert set(folder.glob("*/*.parquet")) - files, "no file was written"
        taken.unlink()
        die()

    return write


def main(definitions: str, point: str) -> None:
    settings = load_settings()
    spark = spark_session(settings, "braid that dies")
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]

    def die() -> None:
        for process in (jvm, os.getpid()):
            os.kill(process, signal.SIGKILL)

    original = publish._replace

    def wrapped(spark: Any, seen: Any, *others: Any) -> None:
        if point == POINTS[4]:
            once_files_are_written(Path(seen.location), die)
        original(spark, seen, *others)
        if point in (POINTS[1], POINTS[4]):
            die()

    publish._replace = wrapped
    if point == POINTS[0]:
        conditional.write_deltalake = files_without_a_commit(die)
    if point == POINTS[4]:
        run.MOST_HERE = 0
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
