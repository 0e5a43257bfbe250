"""Runs ingest: of each source what reads it into its log, and of a derived one also what draws its events."""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from pyspark.sql import SparkSession

from braid.define.derived.base import with_inputs
from braid.define.derived.join import JoinedSource
from braid.define.source import Source
from braid.runtime.settings import Settings
from speed_layer.ingest.deriving import DeriveJob
from speed_layer.ingest.job import IngestJob, interval
from speed_layer.jobs.job import Job, utc_now
from speed_layer.jobs.runner import Runner


def ingest(
    spark: SparkSession,
    sources: Sequence[Source],
    settings: Settings,
    *,
    once: bool = False,
    stop: threading.Event | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> None:
    """Runs until all has been read (`once`) or until `stop` is set."""
    stop = stop or threading.Event()

    def discover() -> list[Job]:
        return ingest_jobs(spark, sources, settings, clock)

    for part in _in_order(discover()) if once else [None]:
        if not stop.is_set():
            Runner(spark, settings, "ingest", partial(list, part) if part else discover, once=once).run(stop)


def ingest_jobs(
    spark: SparkSession,
    sources: Sequence[Source],
    settings: Settings,
    clock: Callable[[], datetime] = utc_now,
    streams: int = 0,
) -> list[Job]:
    """The ingest of each source after that of its inputs, and before that of a derived one what draws its events."""
    asked = {source.name for source in sources}
    ordered = [source for source in with_inputs(sources) if source.name in asked]
    derived = sum(isinstance(source, JoinedSource) for source in ordered)
    jobs: list[Job] = []
    for source in ordered:
        if isinstance(source, JoinedSource):
            pause = interval(settings.trigger, streams + derived, spark.sparkContext.defaultParallelism)
            jobs.append(DeriveJob(spark, settings, clock, source=source, pause=pause))
        jobs.append(IngestJob(spark, settings, clock, source=source, streams=streams + derived))
    return jobs


def _in_order(jobs: Sequence[Job]) -> list[list[Job]]:
    """What ends when all has been read is run after what it reads: first, at once, what comes from outside."""
    outside = [job for job in jobs if not isinstance(job.definition, JoinedSource)]
    later = [[job] for job in jobs if isinstance(job.definition, JoinedSource)]
    return [outside, *later] if outside else later
