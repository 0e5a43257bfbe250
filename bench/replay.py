"""A replay beside the batch recompute of the same days: `python -m bench.replay [--events N] [--runs N]`.

Both compute one view from the same log and leave a Delta table by day:
  - the batch recompute reads the log once and writes the states;
  - the replay is the stream from the beginning of the log, batch by batch into a tail, then folded into the base.
The best of some runs, taken in turn. The machine is noisy: read the ratio, not the numbers.
"""

import argparse
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from bench.shared.common import BY_PAGE, MEASURES, REQUESTS, ResultRow, jvm_memory, program, settings_at
from bench.shared.made_tables import MadeLog
from braid import View, approx_distinct
from braid.log.table import Log
from braid.merge.spark import served_states
from braid.recompute import truth
from braid.runtime.settings import Settings
from braid.runtime.spark import spark_session
from braid.tables.view_tables import ViewTables
from speed_layer.stream.replay import Progress, replay

WITH_SKETCH = replace(BY_PAGE, measures=MEASURES | {"visitors": approx_distinct("host")})
WANTED = 2.5
COMMITS = 20
Stages = dict[str, float]


def batch(spark: Any, settings: Settings, view: View, cut: datetime, number: int) -> Stages:
    """What a publish does: the states of all days up to the cut, written by day in one commit."""
    began = time.monotonic()
    rows = truth(spark, settings, view, cut).repartition(F.col("day"))
    rows.write.format("delta").partitionBy("day").save(settings.location("batch", str(number)))
    return {"all": time.monotonic() - began}


def replayed(spark: Any, settings: Settings, view: View) -> Stages:
    """How long each stage took, by when the next one was first reported."""
    stages: Stages = {}
    began = last = time.monotonic()
    stage = "starting"

    def watch(progress: Progress) -> None:
        nonlocal stage, last
        now = time.monotonic()
        stages[stage] = stages.get(stage, 0.0) + now - last
        stage, last = progress.stage, now

    replay(spark, settings, view, watch=watch)
    watch(Progress("done", 0, 0, 0, 0.0))
    return {"all": time.monotonic() - began} | stages


def check(spark: Any, settings: Settings, view: View, cut: datetime, events: int) -> None:
    """A fast replay of something else proves nothing."""
    served = served_states(spark, view, ViewTables(settings, view.name, 1), cut)
    batch_states = truth(spark, settings, view, cut)
    found, wanted = (
        states.agg(F.sum("count"), F.count("*"), F.sum(F.hash("day", "pane", *view.keys, "count"))).first()
        for states in (served, batch_states)
    )
    assert found == wanted, f"the replay gave {found}, the batch {wanted}"
    assert found is not None
    assert found[0] == events, f"{found[0]} events of {events}"


def measure(folder: Path, options: argparse.Namespace) -> tuple[list[ResultRow], dict[str, Any]]:
    spark = spark_session(settings := settings_at(folder / "home"), "bench")
    cut = MadeLog(spark, Log(REQUESTS, settings)).spread(options.events, options.days, COMMITS)
    view = WITH_SKETCH if options.sketch else BY_PAGE
    batches: list[Stages] = []
    replays: list[Stages] = []
    # The first of each warms the engine up.
    for run in range(options.runs + 1):
        named = replace(view, name=f"{view.name}_{run}")
        batches.append(batch(spark, settings, named, cut, run))
        replays.append(replayed(spark, settings, named))
    check(spark, settings, named, cut, options.events // COMMITS * COMMITS)
    ours = min(replays[1:], key=lambda stages: stages["all"])
    theirs = min(batches[1:], key=lambda stages: stages["all"])
    rows = [
        ResultRow("batch recompute", _time(theirs["all"], options.events), "1"),
        ResultRow(
            "replay", _time(ours["all"], options.events), f"{ours['all'] / theirs['all']:.2f}", f"<= {WANTED}"
        ),
        *(
            ResultRow(f"  of it {stage}", f"{seconds:.1f} s", f"{seconds / theirs['all']:.2f}")
            for stage, seconds in ours.items()
            if stage != "all"
        ),
        ResultRow("memory of the driver", f"{jvm_memory(spark):.1f} GiB"),
    ]
    return rows, {"events": options.events, "batches": batches, "replays": replays}


def _time(seconds: float, events: int) -> str:
    return f"{seconds:.1f} s, {events / seconds:,.0f}/s"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3, help="the best of so many")
    parser.add_argument("--sketch", action="store_true", help="also count distinct visitors")


if __name__ == "__main__":
    program("replay", __doc__, add_arguments, measure)
