"""What Lambda and Kappa cost for the same numbers: `python -m bench.modes [--events N] [--days N]`.

One log, and one view in both modes. First everything is streamed, then a few events come late, and then some come
again, longer after the first than deduplication remembers. Measured is what each mode does about it, and what it keeps
on disk. One run of each, warm: the machine is noisy, read the ratios.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from batch_layer.plan import ALL
from batch_layer.run import run
from batch_layer.tasks import Asked
from bench.common import REQUESTS, Row, arguments, scratch_folder, settings_at, show
from bench.made_log import START, MadeLog
from braid import View, approx_distinct, count, sum_, tumbling
from braid.log import Log
from braid.served import served_states
from braid.settings import Settings
from braid.spark import spark_session
from braid.view_tables import ViewTables
from speed_layer.engine import stream

SOURCE = replace(REQUESTS, event_id="id")
LAMBDA = View(
    name="by_batch", source=SOURCE, keys=("url",), window=tumbling("1 minute"),
    measures={"hits": count(), "volume": sum_("bytes"), "visitors": approx_distinct("host")},
)  # fmt: skip
KAPPA = replace(LAMBDA, name="by_stream", mode="kappa")
COMMITS = 20
LATE, COPIES = 10, 1_000


class Course:
    """The events as they come, and the two ways to keep up with them."""

    def __init__(self, spark: Any, settings: Settings, events: int, days: int) -> None:
        self.spark, self.settings = spark, settings
        self.events, self.days = events, days
        self.made = MadeLog(spark, Log(SOURCE, settings))
        self.epoch = 0

    def begin(self) -> None:
        """Both views are deployed before there is much to replay, so that what follows is live."""
        self.made.create()
        self.commit(0, LATE, timedelta(0), timedelta(hours=1))
        for view in (LAMBDA, KAPPA):
            self.streamed(view)

    def commit(self, first: int, number: int, at: timedelta, spread: timedelta) -> None:
        """Some events in an epoch of their own, which is closed."""
        self.append(first, number, at, spread)
        self.made.close(self.epoch)
        self.epoch += 1

    def append(self, first: int, number: int, at: timedelta, spread: timedelta) -> None:
        self.made.commit(first, number, self.epoch, at, spread)
        self.epoch += 1

    def live(self) -> None:
        each, share = self.events // COMMITS, timedelta(days=self.days) / COMMITS
        for number in range(COMMITS):
            self.append(LATE + number * each, each, number * share, share)
        self.made.close(self.epoch)
        self.epoch += 1

    def streamed(self, view: View) -> float:
        return timed(lambda: stream(self.spark, [view], self.settings, only=True, once=True, clock=self.now))

    def batch(self, stale: bool = False) -> float:
        return timed(lambda: run(lambda: self.spark, self.settings, [LAMBDA], Asked(ALL, stale=stale)))

    def now(self) -> Any:
        """Hours later, so that a fold into the base is due."""
        return START + timedelta(days=self.days + 1, hours=self.epoch)

    def served(self, view: View) -> int:
        from pyspark.sql import functions as F

        states = served_states(self.spark, view, ViewTables(self.settings, view.name, 1))
        return int(states.agg(F.sum("count")).first()[0])


def timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def live_bytes(table: str) -> int:
    """What a table's newest version needs: files that it has replaced wait for a VACUUM."""
    from deltalake import DeltaTable

    return sum(DeltaTable(table).get_add_actions(flatten=True).column("size_bytes").to_pylist())


def megabytes(*tables: str) -> str:
    return f"{sum(live_bytes(table) for table in tables if Path(table).exists()) / 2**20:.1f} MiB"


def measure_all(settings: Settings, options: argparse.Namespace) -> tuple[list[Row], dict[str, Any]]:
    spark = spark_session(settings, "bench")
    course = Course(spark, settings, options.events, options.days)
    by_batch, by_stream = (ViewTables(settings, view.name, 1) for view in (LAMBDA, KAPPA))
    course.begin()
    course.live()
    rows = [
        Row("lambda: all events streamed", f"{course.streamed(LAMBDA):.1f} s"),
        Row("  the log on disk", megabytes(Log(SOURCE, settings).table)),
        Row("  tail before the batch", megabytes(by_batch.tail)),
        Row("  all days computed and published", f"{course.batch():.1f} s"),
        Row("kappa: all events streamed and folded", f"{course.streamed(KAPPA):.1f} s"),
    ]
    total = course.served(KAPPA)
    assert course.served(LAMBDA) == total

    # Late events, all of the first day; then of as many days as there are.
    for what, spread in (("the first day", timedelta(hours=1)), ("every day", timedelta(days=options.days))):
        course.commit(options.events + course.epoch * LATE, LATE, timedelta(0), spread)
        rows += [
            Row(f"{LATE} late events of {what}: lambda, served", f"{course.streamed(LAMBDA):.1f} s"),
            Row("  restated", f"{course.batch(stale=True):.1f} s"),
            Row("  kappa, served and folded", f"{course.streamed(KAPPA):.1f} s"),
        ]
        total += LATE
        assert course.served(LAMBDA) == course.served(KAPPA) == total

    course.commit(LATE, COPIES, timedelta(0), timedelta(days=options.days) / COMMITS)
    for view in (LAMBDA, KAPPA):
        course.streamed(view)
    course.batch(stale=True)
    course.streamed(LAMBDA)
    rows += [
        Row(f"{COPIES} copies after the horizon: lambda counts", f"{course.served(LAMBDA) - total}"),
        Row("  kappa counts", f"{course.served(KAPPA) - total}"),
        Row("on disk in the end: lambda, tail and base", megabytes(by_batch.tail, by_batch.base)),
        Row("  kappa, tail and base", megabytes(by_stream.tail, by_stream.base)),
    ]
    return rows, {"events": options.events, "days": options.days}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=10)


def main() -> None:
    options = arguments(__doc__, add_arguments)
    with scratch_folder() as folder:
        rows, details = measure_all(settings_at(folder / "home"), options)
    show("modes", rows, details, options.json)


if __name__ == "__main__":
    main()
