"""Recomputes all days, and dies at one named point: `python -m tests.faults.die_in_batch DEFINITIONS POINT`."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from batch_layer import publish, run
from batch_layer.tasks import Asked
from braid.define.loading import load_definitions
from braid.runtime.settings import load_settings
from braid.runtime.spark import spark_session
from tests.faults.die_at import once_files_are_written

POINTS = ("in the middle of a publish", "after the commit and before its record")


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
        die()

    publish._replace = wrapped
    views = list(load_definitions(definitions).views.values())
    run.run(lambda: spark, settings, views, Asked(force=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
