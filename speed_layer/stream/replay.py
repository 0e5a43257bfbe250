"""A replay: the same stream, started at the beginning of the log, into a new version of the view."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime

from pyspark.sql import SparkSession

from braid.define.view import View
from braid.deploy import store as deployment
from braid.deploy import versions
from braid.deploy.versions import Version
from braid.errors import BraidError
from braid.lineage.events import Told
from braid.lineage.runs import traced
from braid.log import contents as logs
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.delta_rs import rows_by_day
from speed_layer.jobs.driver_lock import only_driver
from speed_layer.jobs.job import utc_now
from speed_layer.stream.job import StreamJob

TICK = 0.2
# Live ingest goes on: each round reads what came during the one before, and they get shorter.
MOST_ROUNDS = 5


@dataclass(frozen=True)
class Progress:
    """How far a replay is."""

    stage: str
    events: int
    total: int
    days: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.events / self.seconds if self.seconds else 0.0


Watch = Callable[[Progress], None]


def replay(
    spark: SparkSession,
    settings: Settings,
    view: View,
    *,
    from_day: date | None = None,
    watch: Watch = lambda progress: None,
    stop: threading.Event | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> Version:
    """Reads history, folds it, catches up, and leaves a candidate that the running streams take over.

    It may be killed at any moment: the same command resumes it where it was.
    """
    if not logs.exists(spark, Log(view.source, settings)):
        raise BraidError(
            f"there is nothing to replay for view {view.name!r}: the log of source {view.source.name!r} is empty. Run "
            f"`braid ingest {view.source.name}` first."
        )
    with deployment.changing(settings, view.name) as draft:
        draft.value = versions.deployed(draft.value, view, clock(), from_day)
        version = draft.value.candidate or draft.value.active
    assert version is not None
    return read_history(spark, settings, version, watch, stop or threading.Event(), clock)


def read_history(
    spark: SparkSession,
    settings: Settings,
    version: Version,
    watch: Watch,
    stop: threading.Event,
    clock: Callable[[], datetime],
) -> Version:
    """Brings a version up to the end of the log; one that was replaying is a candidate then."""
    name = version.view.name
    job = StreamJob(spark, settings, clock, version=version)
    traced_as = replace(job.lineage(), name=f"replay.{name}", kind="BATCH")
    with (
        only_driver(spark, settings, job.name.replace(" ", "-")),
        traced(settings, lambda: [traced_as]) as told,
    ):
        rounds = _Rounds(job, watch, stop)
        rounds.run()
        told[traced_as.name] = Told(rounds.events, facets={"braid_version": {"version": version.number}})
        if version.phase == "replaying":
            with deployment.changing(settings, name) as draft:
                draft.value = versions.replayed(draft.value, version.number, clock())
    return deployment.load(settings, name).version(version.number)


class _Rounds:
    """Rounds over what is there, until there is hardly anything left."""

    def __init__(self, job: StreamJob, watch: Watch, stop: threading.Event) -> None:
        self.job, self.watch, self.stop = job, watch, stop
        self.began, self.events, self.known, self.before = time.monotonic(), 0, -1, 0
        first = job.version.from_day or date.min
        rows = [number for day, number in rows_by_day(job.log.table).items() if day >= first]
        self.total, self.days = sum(rows), len(rows)

    def run(self) -> None:
        for number in range(MOST_ROUNDS):
            self._round("reading history" if number == 0 else "catching up")
            if self._is_caught_up():
                return

    def _round(self, stage: str) -> None:
        job, self.before = self.job, self.events
        job.start(once=True)
        try:
            while job.is_active:
                self._look()
                self.watch(self._progress(stage))
                if self.stop.wait(TICK):
                    raise BraidError(
                        f"the replay of view {job.view.name!r} was stopped: `braid kappa replay {job.view.name}` "
                        "resumes it."
                    )
            self._look()
            job.collapse()
            if job.error is not None:
                raise BraidError(f"the replay of view {job.view.name!r} failed: {job.error}. Run it again.")
        finally:
            job.stop()
        self.watch(self._progress("folding"))
        job.finish(once=True)
        self.watch(self._progress(stage))

    def _look(self) -> None:
        """Not through PySpark's own objects, which are made with a hundred calls into the JVM each."""
        if self.job.follower is not None:
            self.events = self.before + self.job.follower.rows
            return
        newest, query = self.known, self.job.query
        assert query is not None
        for report in reversed(query._jsq.recentProgress()):
            if (batch := report.batchId()) <= self.known:
                break
            newest, self.events = max(newest, batch), self.events + report.numInputRows()
        self.known = newest

    def _is_caught_up(self) -> bool:
        writer, lag = self.job.tail_writer, self.job.lag
        assert writer is not None
        assert lag is not None
        if writer.last is None:
            return True
        behind = lag.beyond(writer.last.position)
        return behind == (0, 0.0)

    def _progress(self, stage: str) -> Progress:
        seconds = time.monotonic() - self.began
        return Progress(stage, self.events, max(self.total, self.events), self.days, seconds)
