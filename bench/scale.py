"""How cost grows: `python -m bench.scale [--axis events|keys|days|views|executors] [--runs N] [--svg FILE]`.

One size at a time is multiplied, the others stay as they are:
  - events   1x to 16x
  - keys     1x to 100x
  - days     1 to 365, of 500 events each
  - views    1 to 10 of one log
  - executors 1 to 2 of one core, on a cluster of processes on this machine
Cost is the processor time of all processes that work on it, driver, executors and Python: on a machine that others
use too, it says more than the clock, which is shown beside it. The slope is that of a straight line through the
logarithms: 1 is in proportion, 0 is no growth. What is fixed makes it smaller; what counts for planning is the one
between the two largest sizes. Each point is the cheapest of some runs, after one that warms up. The whole takes about
ten minutes on two cores that are free.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from batch_layer.plan import Days
from batch_layer.run import run
from batch_layer.tasks import Asked
from bench.shared.common import BY_PAGE, WITH_IDS, ResultRow, program, settings_at
from bench.shared.made_tables import START, MadeLog
from bench.shared.plot import GrowthCurve, plot
from braid import View, tumbling
from braid.infra import cluster as local
from braid.infra.cluster_files import local_cluster
from braid.infra.services.service import free_port
from braid.log.table import Log
from braid.recompute import truth
from braid.runtime.settings import Settings
from braid.runtime.spark import spark_session
from braid.runtime.spark_cluster import is_cluster
from speed_layer.jobs.engine import stream

COMMITS = 10
# Minutes that divide a day.
WINDOWS = (1, 2, 3, 4, 5, 6, 8, 9, 10, 12)


@dataclass(frozen=True)
class Size:
    """What a point is made of."""

    events: int = 500_000
    keys: int = 600
    days: int = 5
    views: int = 1
    executors: int = 0

    @property
    def all_views(self) -> tuple[View, ...]:
        """Of different windows, so that no two are the same work."""
        return tuple(
            replace(BY_PAGE, name=f"view_{minutes}", source=WITH_IDS, window=tumbling(f"{minutes} minutes"))
            for minutes in WINDOWS[: self.views]
        )


def history(spark: Any, settings: Settings, size: Size) -> None:
    """All of the log through the streams, into tails and bases."""
    stream(spark, size.all_views, settings, only=True, once=True)


def recompute(spark: Any, settings: Settings, size: Size) -> None:
    """The same in one go, as a batch does it, written by day."""
    for view in size.all_views:
        states = truth(spark, settings, view)
        states.write.format("delta").partitionBy("day").save(settings.location("batch", view.name))


def one_day(spark: Any, settings: Settings, size: Size) -> None:
    """The last day of all views: read, gated, compared and published."""
    last = (START + timedelta(days=size.days - 1)).date()
    results = run(lambda: spark, settings, size.all_views, Asked(Days(last, last), force=True))
    assert {result.outcome for result in results} == {"published"}


Work = Callable[[Any, Settings, Size], None]
BOTH: dict[str, Work] = {"history through streams": history, "recompute": recompute}
DAILY: dict[str, Work] = {"history through streams": history, "one day's batch": one_day}


@dataclass(frozen=True)
class Axis:
    """What is multiplied, and what is measured of it."""

    name: str
    sizes: tuple[Size, ...]
    work: dict[str, Work]

    def along(self, size: Size) -> int:
        return int(getattr(size, self.name))


AXES = {
    axis.name: axis
    for axis in (
        Axis("events", tuple(Size(events=125_000 * 2**n) for n in range(5)), BOTH),
        Axis("keys", tuple(Size(keys=keys) for keys in (100, 1_000, 10_000)), BOTH),
        Axis("days", tuple(Size(events=500 * days, days=days) for days in (1, 7, 30, 90, 365)), DAILY),
        Axis("views", tuple(Size(events=100_000, views=views) for views in (1, 2, 5, 10)), DAILY),
        Axis("executors", tuple(Size(executors=number) for number in (1, 2)), BOTH),
    )
}


@dataclass(frozen=True, order=True)
class RunCost:
    """Seconds of processors, and of the clock."""

    cpu: float
    clock: float


@dataclass(frozen=True)
class Grown:
    """One line of the result: what a work took at each size."""

    axis: str
    work: str
    sizes: tuple[int, ...]
    costs: tuple["RunCost", ...]

    @property
    def slope(self) -> float:
        """Of the least squares' line through the logarithms."""
        points = [(math.log(x), math.log(cost.cpu)) for x, cost in zip(self.sizes, self.costs, strict=True)]
        x_mean, y_mean = (sum(values) / len(points) for values in zip(*points, strict=True))
        covariance = math.fsum((x - x_mean) * (y - y_mean) for x, y in points)
        return covariance / math.fsum((x - x_mean) ** 2 for x, _ in points)

    @property
    def last_slope(self) -> float:
        """Between the two largest sizes, where what is fixed counts least."""
        grown = self.costs[-1].cpu / self.costs[-2].cpu
        return math.log(grown) / math.log(self.sizes[-1] / self.sizes[-2])


def measured(folder: Path, axis: Axis, runs: int) -> list[Grown]:
    taken: dict[str, list[RunCost]] = {work: [] for work in axis.work}
    for number, size in enumerate(axis.sizes):
        with session(folder, axis, size) as (spark, settings):
            made = MadeLog(spark, Log(WITH_IDS, settings), pages=size.keys)
            made.spread(size.events, size.days, COMMITS)
            # A session that has not computed anything yet would be measured with its first steps.
            warm_ups = 1 if number == 0 or size.executors else 0
            for work, do in axis.work.items():
                costs = [cost(do, spark, settings, size, n) for n in range(warm_ups + runs)]
                taken[work].append(min(costs[warm_ups:]))
    sizes = tuple(map(axis.along, axis.sizes))
    return [Grown(axis.name, work, sizes, tuple(found)) for work, found in taken.items()]


def cost(do: Work, spark: Any, settings: Settings, size: Size, number: int) -> RunCost:
    """On tables of its own, beside the same log."""
    home = settings_at(Path(settings.home, f"{do.__name__}-{number}"))
    home.local_home().mkdir()
    Path(home.location("log")).symlink_to(settings.location("log"))
    began, used = time.monotonic(), processor_time(settings)
    do(spark, home, size)
    return RunCost(processor_time(settings) - used, time.monotonic() - began)


def processor_time(settings: Settings) -> float:
    """Of this process, its JVM and Python workers, and of a cluster's processes, which are nobody's children."""
    own = psutil.Process()
    working = {own, *own.children(recursive=True)}
    if is_cluster(settings):
        working |= {process for process, _ in local_cluster(settings).processes()}
    times = [process.cpu_times() for process in working]
    return float(sum(each.user + each.system for each in times))


@contextmanager
def session(folder: Path, axis: Axis, size: Size) -> Iterator[tuple[Any, Settings]]:
    home = folder / f"{axis.name}-{axis.along(size)}"
    if not size.executors:
        settings = settings_at(home)
        yield spark_session(settings, "bench"), settings
        return
    ports = {"cluster_port": free_port(), "cluster_ui_port": free_port()}
    cluster = local_cluster(settings_at(home, **ports))
    settings = settings_at(home, **ports, spark_master=cluster.master, spark_cores=size.executors)
    stop_session()
    local.start(cluster, workers=size.executors, cores=1, memory="2g")
    try:
        yield spark_session(settings, "bench"), settings
    finally:
        stop_session()
        local.stop(cluster)


def stop_session() -> None:
    if running := SparkSession.getActiveSession():
        running.stop()


def rows_of(results: Sequence[Grown]) -> list[ResultRow]:
    return [
        ResultRow(
            f"{grown.axis}: {grown.work}",
            ", ".join(
                f"{size:,}: {one.cpu:.1f} s ({one.clock:.1f})"
                for size, one in zip(grown.sizes, grown.costs, strict=True)
            ),
            f"slope {grown.slope:.2f}, at the end {grown.last_slope:.2f}",
        )
        for grown in results
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--axis", choices=AXES, action="append", help="only this one; may be repeated")
    parser.add_argument("--runs", type=int, default=2, help="the best of so many")
    parser.add_argument("--svg", type=Path, help="draw the result here")


def measure(folder: Path, options: argparse.Namespace) -> tuple[list[ResultRow], dict[str, Any]]:
    results = [grown for name in options.axis or AXES for grown in measured(folder, AXES[name], options.runs)]
    if options.svg:
        lines = [
            GrowthCurve(g.axis, g.work, g.sizes, tuple(c.cpu for c in g.costs), g.slope) for g in results
        ]
        options.svg.write_text(plot(lines))
    details = [asdict(g) | {"slope": g.slope, "last_slope": g.last_slope} for g in results]
    return rows_of(results), {"results": details}


if __name__ == "__main__":
    program("scale", __doc__, add_arguments, measure)
