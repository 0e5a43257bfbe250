"""A thousand small micro-batches through one stream: `python -m bench.steady [--batches N] [--mode kappa|lambda]`.

A commit of the log becomes one micro-batch, as fast as they can be made. Epochs are short and made up, so that closed
ones are folded all the time and, in kappa mode, moved into the base. Wanted: the thousandth micro-batch takes what the
fiftieth took, in as much memory, with as few files.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.shared.common import (
    BY_PAGE,
    ResultRow,
    heap_used,
    jvm_memory,
    percentile,
    program,
    settings_at,
)
from bench.shared.made_tables import MadeLog
from braid import View
from braid.deploy.store import deploy_first
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.runtime.spark import spark_session
from speed_layer.jobs.engine import stream_jobs
from speed_layer.jobs.job import utc_now
from speed_layer.jobs.runner import Runner
from speed_layer.stream.job import StreamJob

EPOCH = timedelta(seconds=10)
COMMITS_PER_EPOCH = 10
SECOND = timedelta(seconds=1)
FOLD_EVERY = timedelta(seconds=100)
AROUND = 20
PATIENCE = 120.0
LOOKS = 5


@dataclass(frozen=True)
class Look:
    """How the stream is around a batch: its milliseconds, the tail's files, the driver's heap and memory in GiB."""

    batch: int
    milliseconds: float
    slowest: float
    files: int
    heap: float
    memory: float


def points(wanted: int) -> list[int]:
    return sorted({min(50, wanted), *(wanted * quarter // 4 for quarter in range(1, 5))})


def run(spark: Any, settings: Settings, view: View, options: argparse.Namespace) -> list[Look]:
    made = MadeLog(spark, Log(view.source, settings))
    made.create()
    deploy_first(settings, view, utc_now())
    found = []
    with streaming(spark, settings, view) as job:
        times: dict[int, float] = {}
        for number in range(1, options.batches + 1):
            first, epoch = number * options.events, number // COMMITS_PER_EPOCH
            made.commit(first, options.events, epoch, number * SECOND, SECOND)
            # One commit waits while another is being read: a micro-batch finds the next one there, and only that.
            _wait_for(job, number - 1)
            _note(job, number - 1, times)
            if number in points(options.batches):
                _wait_for(job, number)
                _note(job, number, times)
                found.append(_point(spark, job, number, times))
    return found


@contextmanager
def streaming(spark: Any, settings: Settings, view: View) -> Iterator[StreamJob]:
    """The view's stream as `braid stream` runs it, in a thread."""
    stop = threading.Event()
    runner = Runner(
        spark, settings, "bench", lambda: stream_jobs(spark, settings, [view.name], utc_now), waits=True
    )
    thread = threading.Thread(target=runner.run, args=(stop,))
    thread.start()
    try:
        yield _job(runner, thread)
    finally:
        stop.set()
        thread.join()


def _job(runner: Runner, thread: threading.Thread) -> StreamJob:
    while thread.is_alive():
        for job in runner.jobs.values():
            if job.is_started:
                assert isinstance(job, StreamJob)
                return job
        time.sleep(0.05)
    raise AssertionError("the stream did not start: its error is above")


def _wait_for(job: StreamJob, commit: int) -> None:
    """Until the stream has read this commit of the log; the table's creation was the one before the first."""
    deadline = time.monotonic() + PATIENCE
    while commit > 0 and _next_commit(job) <= commit:
        assert job.error is None, f"the stream ended: {job.error}"
        assert time.monotonic() < deadline, f"the stream has not read commit {commit} of the log"
        time.sleep(0.01)


def _next_commit(job: StreamJob) -> int:
    last = job.tail_writer.last if job.tail_writer else None
    return last.position.version if last else 0


def _note(job: StreamJob, number: int, times: dict[int, float]) -> None:
    """Batch -> its milliseconds, from the moment that its commit was found; a wait for a fold is in them."""
    if job.follower is not None and job.follower.batch_ms is not None:
        times[number] = job.follower.batch_ms


def _point(spark: Any, job: StreamJob, number: int, times: dict[int, float]) -> Look:
    newest = [times[batch] for batch in sorted(times)][-AROUND:]
    assert job.folding is not None
    return Look(
        number, statistics.median(newest), percentile(newest, 0.95),
        job.folding.files.total(), _least_heap(spark), jvm_memory(spark),
    )  # fmt: skip


def _least_heap(spark: Any) -> float:
    """The least of some looks: a fold that is being made ready holds some sixty megabytes for a moment."""
    looks = []
    for _ in range(LOOKS):
        looks.append(heap_used(spark))
        time.sleep(0.5)
    return min(looks)


def rows_of(found: list[Look]) -> list[ResultRow]:
    first = found[0]
    return [
        row
        for point in found
        for row in (
            ResultRow(
                f"batch {point.batch:,}: time",
                f"{point.milliseconds:,.0f} ms, p95 {point.slowest:,.0f} ms",
                f"{point.milliseconds / first.milliseconds:.2f}",
                "1",
            ),
            ResultRow(f"batch {point.batch:,}: files of the tail", f"{point.files}"),
            ResultRow(
                f"batch {point.batch:,}: heap, memory",
                f"{point.heap:.2f} GiB, {point.memory:.2f} GiB",
                f"{point.heap / first.heap:.2f}",
                "1",
            ),
        )
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--events", type=int, default=500, help="of a micro-batch")
    parser.add_argument("--mode", choices=["kappa", "lambda"], default="kappa")


def measure(folder: Path, options: argparse.Namespace) -> tuple[list[ResultRow], dict[str, Any]]:
    settings = settings_at(folder / "home", epoch=EPOCH, fold_every=FOLD_EVERY)
    spark = spark_session(settings, "bench")
    found = run(spark, settings, replace(BY_PAGE, mode=options.mode), options)
    return rows_of(found), {"points": [asdict(point) for point in found]}


if __name__ == "__main__":
    program("steady", __doc__, add_arguments, measure)
