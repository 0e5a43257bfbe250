"""Streams and corrects a home of clicks, and dies at one named point: `python -m tests.faults.die_deriving POINT`."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from batch_layer.derived import correct
from braid.define.loading import load_definitions
from braid.log.derived import DerivedPlaces
from braid.runtime.settings import load_settings
from braid.runtime.spark import spark_session
from speed_layer.jobs.engine import stream

# What is wrapped, and whether it dies before it or after.
POINTS = {
    "before_the_file": ("put", False),
    "after_the_file": ("put", True),
    "after_the_record": ("keep_derivation", True),
    "after_the_inbox": ("keep_correction", False),
    "after_the_correction": ("keep_correction", True),
}


def main(point: str) -> None:
    settings = load_settings()
    spark = spark_session(settings, "braid that dies")
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    name, after = POINTS[point]
    original: Callable[..., Any] = getattr(DerivedPlaces, name)

    def wrapped(*arguments: Any) -> Any:
        if after:
            original(*arguments)
        # The JVM first: it would go on with what it was told for half a second.
        for process in (jvm, os.getpid()):
            os.kill(process, signal.SIGKILL)

    setattr(DerivedPlaces, name, wrapped)
    definitions = load_definitions(settings.definitions)
    sources = list(definitions.sources.values())
    stream(spark, list(definitions.views.values()), settings, sources=sources, once=True)
    correct(lambda: spark, settings, sources)


if __name__ == "__main__":
    main(sys.argv[1])
