"""All the streams of an installation in one Spark application, with or without the ingest that feeds them."""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime

from pyspark.sql import SparkSession

from braid.define.source import Source
from braid.define.view import View
from braid.deploy import store as deployment
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings
from braid.runtime.status import ENGINE
from speed_layer.ingest.run import ingest, ingest_jobs
from speed_layer.jobs.job import Job, utc_now
from speed_layer.jobs.runner import Runner
from speed_layer.stream.follower import LogFollower
from speed_layer.stream.job import StreamJob

logger = Logger("stream")


def stream(
    spark: SparkSession,
    views: Sequence[View],
    settings: Settings,
    *,
    sources: Sequence[Source] = (),
    only: bool = False,
    once: bool = False,
    stop: threading.Event | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> None:
    """Streams every deployed view, or `only` the given ones, beside the ingest of `sources`.

    A view that was never deployed is, as its first version. With `once`, all that is there is ingested, then streamed.
    """
    stop = stop or threading.Event()
    for view in views:
        deployment.deploy_first(settings, view, clock())
    names = [view.name for view in views] if only else None
    if once and sources:
        ingest(spark, sources, settings, once=True, stop=stop, clock=clock)
        sources = ()

    together: dict[str, LogFollower] = {}

    def discover() -> list[Job]:
        streams = stream_jobs(spark, settings, names, clock, together)
        return [*ingest_jobs(spark, sources, settings, clock, len(streams)), *streams]

    # Beside its ingest a stream waits for the log that is to come; a service waits for its topics.
    process = "-".join(["stream", *names]) if names else ENGINE
    Runner(spark, settings, process, discover, once=once, waits=bool(sources)).run(stop)


def stream_jobs(
    spark: SparkSession,
    settings: Settings,
    names: Sequence[str] | None,
    clock: Callable[[], datetime],
    together: dict[str, LogFollower],
) -> list[StreamJob]:
    """One for each version that is to be kept up to date; a replay runs its own until it hands it over."""
    known = deployment.deployments(settings) if names is None else None
    chosen = (
        known.values() if known is not None else [deployment.load(settings, name) for name in names or ()]
    )
    return [
        StreamJob(spark, settings, clock, version=version, together=together)
        for deployed in chosen
        for version in deployed.running
    ]
