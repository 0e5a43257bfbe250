"""What the batch layer costs: `python -m bench.batch [--events N] [--runs N]`.

  - One day for three views beside the same day for one: the log is read once, and what is read is shared.
  - Thirty small days in one run beside one of them.
Each is the best of some runs, taken in turn, in one Spark application; gates and publishing are in it. The machine is
noisy: read the ratios, not the numbers.
"""

import argparse
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from batch_layer.plan import Days
from batch_layer.run import run
from batch_layer.tasks import Asked
from bench.shared.common import MEASURES, WITH_IDS, ResultRow, jvm_memory, program, settings_at
from bench.shared.made_tables import START, MadeLog
from braid import View, approx_distinct, tumbling
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.runtime.spark import spark_session

VIEWS = (
    View(name="by_page", source=WITH_IDS, keys=("url",), window=tumbling("1 minute"), measures=MEASURES),
    View(name="by_status", source=WITH_IDS, keys=("status",), window=tumbling("1 minute"), measures=MEASURES),
    View(
        name="visitors", source=WITH_IDS, window=tumbling("1 hour"),
        measures={"visitors": approx_distinct("host")},
    ),
)  # fmt: skip
WANTED = 1.6
SMALL, SMALL_DAYS = 2_000, 30
# The small days come after the large one.
LARGE_DAY = START.date()


def make_log(spark: Any, settings: Settings, events: int) -> None:
    made = MadeLog(spark, Log(WITH_IDS, settings))
    made.create()
    made.commit(0, events, 0, timedelta(0), timedelta(hours=23), files=4)
    for day in range(1, SMALL_DAYS + 1):
        made.commit(events + day * SMALL, SMALL, day, timedelta(days=day), timedelta(hours=23))
    made.close(SMALL_DAYS + 1)


def seconds(spark: Any, settings: Settings, views: tuple[View, ...], first: date, last: date) -> float:
    began = time.monotonic()
    results = run(lambda: spark, settings, views, Asked(Days(first, last), force=True))
    took = time.monotonic() - began
    assert {result.outcome for result in results} == {"published"}
    return took


def measure(folder: Path, options: argparse.Namespace) -> tuple[list[ResultRow], dict[str, Any]]:
    spark = spark_session(settings := settings_at(folder / "home"), "bench")
    make_log(spark, settings, options.events)
    small = (LARGE_DAY + timedelta(days=1), LARGE_DAY + timedelta(days=SMALL_DAYS))
    taken: dict[str, list[float]] = {}
    # The first of each warms the engine up.
    for _ in range(options.runs + 1):
        for what, views, first, last in (
            ("one view", VIEWS[:1], LARGE_DAY, LARGE_DAY),
            ("three views", VIEWS, LARGE_DAY, LARGE_DAY),
            ("one small day", VIEWS[:1], small[0], small[0]),
            ("thirty small days", VIEWS[:1], *small),
        ):
            taken.setdefault(what, []).append(seconds(spark, settings, views, first, last))
    best = {what: min(found[1:]) for what, found in taken.items()}
    ratio = best["three views"] / best["one view"]
    rows = [
        ResultRow(f"{options.events:,} events, one view", f"{best['one view']:.1f} s", "1"),
        ResultRow("  three views", f"{best['three views']:.1f} s", f"{ratio:.2f}", f"<= {WANTED}"),
        ResultRow(f"{SMALL:,} events, one day", f"{best['one small day']:.1f} s", "1"),
        ResultRow(
            "  thirty such days in one run", f"{best['thirty small days']:.1f} s",
            f"{best['thirty small days'] / best['one small day']:.1f}", "<= 1.3",
        ),
        ResultRow("memory of the driver", f"{jvm_memory(spark):.1f} GiB"),
    ]  # fmt: skip
    return rows, {"events": options.events, "seconds": taken}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=2, help="the best of so many")


if __name__ == "__main__":
    program("batch", __doc__, add_arguments, measure)
