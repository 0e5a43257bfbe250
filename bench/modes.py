"""What a day costs in each mode, and what a late event costs: `python -m bench.modes [--events N] [--days N]`.

One view in both modes, over one log, in one Spark application that is warm:
  - each day arrives in 24 epochs; both views stream it; kappa folds, lambda computes the day and collects its tail;
  - then one event arrives for the first day: kappa folds it in, lambda restates the day.
Each stage ends with a base that holds the events, which is checked. The start of a Spark application and Airflow's own
time are not in it: they come on top of lambda's. The machine is noisy: read the ratios, not the numbers.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from batch_layer.plan import Days
from batch_layer.run import run
from batch_layer.tasks import Asked
from bench.shared.common import BY_PAGE, WITH_IDS, ResultRow, bytes_on_disk, program, settings_at
from bench.shared.made_tables import START, MadeLog
from braid import View
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.runtime.spark import spark_session
from braid.tables.view_tables import ViewTables
from speed_layer.jobs.engine import stream

KAPPA = replace(BY_PAGE, name="in_kappa", source=WITH_IDS, mode="kappa")
LAMBDA = replace(KAPPA, name="in_lambda", mode="lambda")
EPOCHS = 24
# An epoch is a minute: a kappa view folds once a day's epochs are there, and at each late event.
FOLD_EVERY = timedelta(minutes=2)
FIRST_DAY = START.date()


@dataclass
class Life:
    """The days of both views as they happen, and the seconds of each stage."""

    spark: Any
    settings: Settings
    made: MadeLog
    sent: int = 0
    epoch: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def day(self, number: int, events: int) -> None:
        each, share = events // EPOCHS, timedelta(hours=23) / EPOCHS
        for part in range(EPOCHS):
            self._arrive(each, timedelta(days=number) + part * share, share)
        self._close()
        self._both("a day", FIRST_DAY + timedelta(days=number))

    def late(self) -> None:
        """One event of the first day; the next epochs close it."""
        self._arrive(1, timedelta(hours=1), timedelta(minutes=1))
        self._close()
        self._both("a late event", FIRST_DAY)

    def _both(self, what: str, day: date) -> None:
        self._timed(f"{what}, kappa: stream and fold", lambda: self._stream(KAPPA))
        self._timed(f"{what}, lambda: stream", lambda: self._stream(LAMBDA))
        self._timed(f"{what}, lambda: compute and publish", lambda: self._publish(day))
        self._timed(f"{what}, lambda: collect the tail", lambda: self._stream(LAMBDA))
        for view in (KAPPA, LAMBDA):
            found = self._in_base(view)
            assert found == self.sent, f"the base of {view.name} has {found} events of {self.sent}"

    def _timed(self, what: str, work: Callable[[], None]) -> None:
        began = time.monotonic()
        work()
        self.seconds.setdefault(what, []).append(time.monotonic() - began)

    def _stream(self, view: View) -> None:
        stream(self.spark, [view], self.settings, only=True, once=True)

    def _publish(self, day: date) -> None:
        results = run(lambda: self.spark, self.settings, [LAMBDA], Asked(Days(day, day)))
        assert [result.outcome for result in results] == ["published"], results

    def _arrive(self, events: int, at: timedelta, spread: timedelta) -> None:
        self.made.commit(self.sent, events, self.epoch, at, spread)
        self.sent, self.epoch = self.sent + events, self.epoch + 1

    def _close(self) -> None:
        """Enough epochs for a fold to be due."""
        self.epoch += int(FOLD_EVERY / self.settings.epoch)
        self.made.close(self.epoch)
        self.epoch += 1

    def _in_base(self, view: View) -> int:
        base = self.spark.read.format("delta").load(ViewTables(self.settings, view.name, 1).base)
        return int(base.selectExpr("sum(count)").first()[0] or 0)

    def median(self, what: str, mode: str) -> float:
        """Of what a mode does for one thing, without the first time, which warms the engine up."""
        stages = [found[1:] for name, found in self.seconds.items() if name.startswith(f"{what}, {mode}:")]
        return statistics.median(map(sum, zip(*stages, strict=True)))


def measure(folder: Path, options: argparse.Namespace) -> tuple[list[ResultRow], dict[str, Any]]:
    settings = settings_at(folder / "home", fold_every=FOLD_EVERY)
    spark = spark_session(settings, "bench")
    made = MadeLog(spark, Log(WITH_IDS, settings))
    made.create()
    life = Life(spark, settings, made)
    for number in range(options.days):
        life.day(number, options.events)
    for _ in range(options.days):
        life.late()
    rows = []
    for what in ("a day", "a late event"):
        usual = life.median(what, "kappa")
        for name in (name for name in life.seconds if name.startswith(f"{what},")):
            taken = statistics.median(life.seconds[name][1:])
            rows.append(ResultRow(name, f"{taken:.2f} s", f"{taken / usual:.2f}"))
        total = life.median(what, "lambda")
        rows.append(ResultRow(f"{what}, lambda in all", f"{total:.2f} s", f"{total / usual:.2f}"))
    rows += [
        ResultRow(f"on disk, {view.mode}", f"{_mebibytes(settings, view):.1f} MiB")
        for view in (KAPPA, LAMBDA)
    ]
    return rows, {"events": options.events, "days": options.days, "seconds": life.seconds}


def _mebibytes(settings: Settings, view: View) -> float:
    return bytes_on_disk(Path(settings.location("views", view.name)).rglob("*")) / 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, default=240_000, help="of a day")
    parser.add_argument("--days", type=int, default=5, help="and as many late events")


if __name__ == "__main__":
    program("modes", __doc__, add_arguments, measure)
