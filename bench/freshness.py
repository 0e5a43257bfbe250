"""From Kafka to a readable number, beside two usual designs: `python -m bench.freshness [--probes N] [--dedup]`.

Each design runs alone, as a Spark application of its own, with so many views, at the same rate of events:
  - Braid: ingest and streams in one application, with the settings that `braid stream --ingest` has by default;
  - a stateful aggregation, merged into a Delta table by foreachBatch, one query a view;
  - a stateful aggregation into Delta's own sink, which writes the whole table at each batch (in append mode a window
    could be read only once it is final).
A probe is an event with a url of its own. It is readable when delta-rs sees a file that holds it. Nobody removes
duplicates, unless --dedup asks Braid to. The machine is noisy: read the ratios, not the numbers.
"""

import argparse
import json
import math
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event as Signal
from typing import Any

import psutil

from bench.designs import BRAID, DESIGNS, MERGE, NUMBERS, Case, MicroBatch, application
from bench.shared.common import (
    REQUESTS,
    ResultRow,
    arguments,
    create_topic,
    own_broker,
    percentile,
    scratch_folder,
    show,
)
from bench.shared.load import Probes, live_load
from bench.shared.reader import Reader
from braid.runtime.settings import Settings

# Beside the MERGE of as many views, and beside one view.
WANTED = {1: 0.5, 3: 0.4}
OF_ONE = {10: 2.0, 30: 4.0}
SPREAD, SLOPE = 1.8, 0.5
LOOK_EVERY = 0.05
WARM_COMMITS = 20
PATIENCE = 180.0


@dataclass(frozen=True)
class Freshness:
    """What one design took from sending a probe to reading it, in seconds, and its micro-batches meanwhile."""

    case: Case
    seconds: tuple[float, ...]
    batches: tuple[MicroBatch, ...]
    # Processor time of the application and its JVM, in seconds for each second of the measurement.
    load: float
    # Seconds until the first probe was read, from when the application's process was there and the load began.
    start: float

    def at(self, share: float) -> float:
        return percentile(self.seconds, share)

    def as_dict(self) -> dict[str, Any]:
        numbers = {
            "p50": self.at(0.5),
            "p95": self.at(0.95),
            "max": max(self.seconds),
            "load": self.load,
            "start": self.start,
        }
        return asdict(self.case) | numbers | {"probes": len(self.seconds), "batches": self.batch_times()}

    def batch_times(self) -> dict[str, dict[str, float]]:
        """Query -> how many warm micro-batches it had and their milliseconds; a stream's wait for a fold is in them."""
        times: dict[str, list[int]] = {}
        for batch in sorted(self.batches, key=lambda batch: batch.number):
            times.setdefault(batch.query, []).append(batch.milliseconds)
        warm = {query: found[WARM_COMMITS:] or found for query, found in times.items()}
        return {
            query: {
                "number": len(found),
                "p50": statistics.median(found),
                "p95": percentile(found, 0.95),
                "max": max(found),
            }
            for query, found in warm.items()
        }


def measure(case: Case, options: argparse.Namespace) -> Freshness:
    with scratch_folder() as folder, own_broker(folder / "home") as settings:
        topic = str(REQUESTS.kafka_topic)
        create_topic(settings, topic)
        with (
            running(case, settings) as (process, batches),
            live_load(settings, topic, options.rate, options.every / 1000) as probes,
        ):
            reader = Reader(case.table(settings))
            start, began = _warm(reader, process, options.warm_up)
            spent, since = cpu_seconds(process.pid), time.monotonic()
            seconds = _timed(reader, process, probes, began, options.probes)
            load = (cpu_seconds(process.pid) - spent) / (time.monotonic() - since)
        return Freshness(case, tuple(seconds), tuple(batches), load, start)


@contextmanager
def running(case: Case, settings: Settings) -> Iterator[tuple[Any, list[MicroBatch]]]:
    """The design in a process of its own; its micro-batches are in the list once the block has ended."""
    context = multiprocessing.get_context("spawn")
    stop, (ours, theirs) = context.Event(), context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(case, settings, stop, theirs))
    process.start()
    batches: list[MicroBatch] = []
    try:
        yield process, batches
    finally:
        stop.set()
        if process.is_alive() and ours.poll(PATIENCE):
            batches.extend(ours.recv())
        process.join(PATIENCE)


def _serve(case: Case, settings: Settings, stop: Signal, results: Connection) -> None:
    results.send(application(case, settings, stop))


def _warm(reader: Reader, process: Any, seconds: float) -> tuple[float, float]:
    """What the first probe took, and when it has been readable for so long and enough batches are done."""
    first, started = None, time.monotonic()
    while first is None or reader.version < WARM_COMMITS or time.monotonic() - first < seconds:
        _look(reader, process)
        if first is None and reader.found:
            first = time.monotonic()
        assert time.monotonic() - started < PATIENCE + seconds, f"{reader.table} did not get going"
    return first - started, time.time()


def _timed(reader: Reader, process: Any, probes: Probes, began: float, wanted: int) -> list[float]:
    """Of the first so many probes sent from now on; one that never comes is a failure, not an omission."""
    deadline: float | None = None
    while True:
        _look(reader, process)
        sent = [(url, moment) for url, moment in list(probes.sent.items()) if moment >= began][:wanted]
        if len(sent) == wanted:
            deadline = deadline or time.monotonic() + PATIENCE
            if all(url in reader.found for url, _ in sent):
                return [reader.found[url] - moment for url, moment in sent]
            assert time.monotonic() < deadline, "a probe was sent and never became readable"


def _look(reader: Reader, process: Any) -> None:
    assert process.is_alive(), "the application ended: its error is above"
    reader.look()
    time.sleep(LOOK_EVERY)


def cpu_seconds(process: int) -> float:
    """What a process and all that it started have used of the processors so far."""
    root = psutil.Process(process)
    times = [one.cpu_times() for one in (root, *root.children(recursive=True))]
    return float(sum(time.user + time.system for time in times))


def rows_of(results: Sequence[Freshness]) -> list[ResultRow]:
    """Each design beside the MERGE of as many views, and Braid with many views beside itself with one."""
    usual = {result.case.views: result for result in results if result.case.design == MERGE}
    rows = []
    for result in results:
        case, other = result.case, usual.get(result.case.views)
        for name, share in (("p50", 0.5), ("p95", 0.95)):
            wanted = WANTED.get(case.views) if case.design == BRAID and name == "p50" else None
            rows.append(
                ResultRow(
                    f"{case.views} view{'s' if case.views > 1 else ''}, {name}: {DESIGNS[case.design]}",
                    f"{result.at(share) * 1000:,.0f} ms",
                    f"{result.at(share) / other.at(share):.2f}" if other else "",
                    f"<= {wanted:.2f}" if wanted else "",
                )
            )
    ours = {result.case.views: result for result in results if result.case.design == BRAID}
    for views, result in ours.items():
        spread = result.at(0.95) / result.at(0.5)
        rows.append(ResultRow(f"{views} views, p95 beside p50", "", f"{spread:.2f}", f"<= {SPREAD:.2f}"))
        rows.append(ResultRow(f"{views} views, processors' time", f"{result.load:.2f} s a second"))
        if views > 1 and 1 in ours:
            times, slope = result.at(0.5) / ours[1].at(0.5), math.log(result.load / ours[1].load, views)
            asked = f"<= {OF_ONE[views]:.2f}" if views in OF_ONE else ""
            rows.append(ResultRow(f"{views} views beside one, p50", "", f"{times:.2f}", asked))
            rows.append(ResultRow(f"{views} views beside one, slope", "", f"{slope:.2f}", f"<= {SLOPE:.2f}"))
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--probes", type=int, default=120, help="how many are measured")
    parser.add_argument("--every", type=float, default=500, help="milliseconds between probes")
    parser.add_argument("--rate", type=float, default=1000, help="events a second")
    parser.add_argument("--warm-up", type=float, default=60, help="seconds that do not count")
    parser.add_argument("--views", type=int, nargs="+", default=[1, 3], choices=NUMBERS, metavar="N")
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--dedup", action="store_true", help="Braid removes duplicates by event id")


def _told(result: Freshness) -> Freshness:
    """Each case is said when it is done: a run of many views takes minutes."""
    print(json.dumps(result.as_dict()), file=sys.stderr, flush=True)
    return result


def main() -> None:
    options = arguments(__doc__, add_arguments)
    cases = [
        Case(design, views, options.dedup and design == BRAID)
        for views in options.views
        for design in options.designs
    ]
    results = [_told(measure(case, options)) for case in cases]
    show("freshness", rows_of(results), {"cases": [result.as_dict() for result in results]}, options.json)


if __name__ == "__main__":
    main()
