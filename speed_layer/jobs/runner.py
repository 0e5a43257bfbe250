"""Runs jobs side by side in one Spark application: a job that fails is tried again and does not stop the others."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime

from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from braid.deploy.store import Pauses, read_pauses
from braid.errors import BraidError, NotYet
from braid.lineage.runs import LineageRun, begun
from braid.runtime import status
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings
from braid.runtime.status import REMOTE_REPORT, ProcessStatus, QueryStatus
from speed_layer.jobs.driver_lock import PATIENCE, only_driver
from speed_layer.jobs.job import Job, first_line

logger = Logger("jobs")

TICK = 0.2
TICKS_PER_LOOK = 5
# Whoever is behind by more seconds than this catches up, and says so this often.
BEHIND = 5.0

Discover = Callable[[], Sequence[Job]]


class Runner:
    """The jobs of one process. `discover` tells which there should be, and is asked again and again."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        process: str,
        discover: Discover,
        *,
        once: bool = False,
        waits: bool = False,
    ) -> None:
        self.spark, self.settings, self.process = spark, settings, process
        self.discover, self.once, self.waits = discover, once, waits
        self.jobs: dict[str, Job] = {}
        self.locks: dict[str, ExitStack] = {}
        self.runs: dict[str, LineageRun | None] = {}
        self.ended: list[Job] = []
        self.taken: set[str] = set()
        self.refused: BraidError | None = None
        self.pauses = Pauses()
        self.resting: tuple[QueryStatus, ...] = ()
        self.started = datetime.now(UTC)
        self.spark_ui: str | None = None
        self.told = self.reported = 0.0

    def run(self, stop: threading.Event) -> None:
        """Until all has been read (`once`) or until `stop` is set."""
        self.spark_ui = self.spark.sparkContext.uiWebUrl
        try:
            try:
                self._match(PATIENCE)
                self._refuse_if_nothing_runs()
                self.report()
                self._watch(stop)
            finally:
                for name in reversed(list(self.jobs)):
                    self._end(name)
                if self.ended or self.refused is None:
                    status.forget(self.settings, self.process)
        except (Py4JNetworkError, ConnectionError):
            # Whatever else is tried would fail in the same way.
            raise BraidError(
                "Spark's process is gone: it was killed, or ran out of memory. Nothing is lost: run this again."
            ) from None
        if self.once:
            self._raise_the_first_error()

    def _watch(self, stop: threading.Event) -> None:
        ticks = 0
        while not stop.wait(TICK):
            ticks += 1
            if self.once:
                if not any(job.is_active for job in self.jobs.values()):
                    return
            else:
                for job in self.jobs.values():
                    job.mind()
                self._refuse_if_nothing_runs()
            if ticks % TICKS_PER_LOOK == 0:
                if not self.once:
                    self._match()
                self.report()

    def report(self) -> None:
        """Tells the world how the jobs are."""
        if not self.settings.home_is_local and time.monotonic() - self.reported < REMOTE_REPORT:
            return
        self.reported = time.monotonic()
        queries = (*(job.status() for job in self.jobs.values()), *self.resting)
        now = datetime.now(UTC)
        me = ProcessStatus(self.process, os.getpid(), self.started, now, queries, spark_ui=self.spark_ui)
        status.write(self.settings, me)
        if time.monotonic() - self.told >= BEHIND:
            self.told = time.monotonic()
            tell_of_backlogs(queries)

    def _match(self, patience: float = 0.0) -> None:
        """Starts jobs that are wanted and not there, and ends those that are no longer wanted."""
        wanted = self._without_paused({job.name: job for job in self.discover()})
        for name, job in list(self.jobs.items()):
            if name not in wanted or wanted[name].definition != job.definition:
                logger.info(f"{name} is no longer wanted as it was")
                self._end(name)
        for name, job in wanted.items():
            if name in self.jobs:
                continue
            held = ExitStack()
            try:
                held.enter_context(only_driver(self.spark, self.settings, name.replace(" ", "-"), patience))
            except BraidError as refusal:
                self._leave_to_others(name, refusal)
                continue
            self.taken.discard(name)
            self.jobs[name], self.locks[name] = job, held
            self.runs[name] = begun(self.settings, job.lineage)
            job.try_start(self.once)
            self.report()
        if wanted and not self.jobs and self.refused is not None:
            raise self.refused

    def _without_paused(self, jobs: dict[str, Job]) -> dict[str, Job]:
        """The jobs that are to run: those that a person has paused rest, and are seen to."""
        try:
            self.pauses = read_pauses(self.settings)
        except BraidError as error:
            # A note that cannot be read stops nothing: what was known of it goes on to hold.
            logger.error("what is paused cannot be read", reason=str(error))
        pauses = self.pauses
        if pauses == Pauses():
            self.resting = ()
            return jobs
        told = {name: job.status() for name, job in jobs.items()}
        paused = {
            name
            for name, one in told.items()
            if (one.kind == "stream" and one.view in pauses.stream)
            or (one.kind in ("ingest", "derive") and one.source in pauses.ingest)
        }
        known = {one.name for one in self.resting}
        for name in paused - known:
            logger.info(f"{name} is paused")
        self.resting = tuple(replace(told[name], state="paused") for name in paused)
        return {name: job for name, job in jobs.items() if name not in paused}

    def _leave_to_others(self, name: str, refusal: BraidError) -> None:
        """Somebody else runs it, such as a replay that is about to hand it over: it is asked for again later."""
        self.refused = self.refused or refusal
        if self.once:
            raise refusal
        if name not in self.taken:
            self.taken.add(name)
            logger.warning(f"{name} is left to another process", reason=str(refusal))

    def _end(self, name: str) -> None:
        job, held = self.jobs.pop(name), self.locks.pop(name)
        with held:
            job.stop()
            if job.is_started:
                job.collapse()
            # What could not be run to its end has no result; a service says as much as it can.
            if job.error is None or not self.once:
                self._finish(job)
        self.ended.append(job)
        if (run := self.runs.pop(name, None)) is not None:
            run.end(error=job.error)
        logger.info(f"{name} stopped", batches=job.writer.batches if job.writer else 0)

    def _finish(self, job: Job) -> None:
        """The last words of a job are not worth the others': what cannot be said now is found at the next start."""
        try:
            job.finish(self.once)
        except (BraidError, PySparkException) as error:
            if self.once:
                job.error = error
            logger.error(f"{job.name} could not finish", reason=first_line(error))

    def _refuse_if_nothing_runs(self) -> None:
        """When no job can go on without a person, the process ends with what that person must know."""
        stuck = [
            job.error
            for job in self.jobs.values()
            if job.error is not None
            and job.needs_a_person
            and not (self.waits and isinstance(job.error, NotYet))
        ]
        if stuck and len(stuck) == len(self.jobs):
            raise stuck[0]

    def _raise_the_first_error(self) -> None:
        for job in self.ended:
            if isinstance(job.error, BraidError):
                raise job.error
            if job.error is not None:
                raise BraidError(f"{job.name} failed: {job.error}. Nothing is lost: run it again.")


def tell_of_backlogs(queries: Sequence[QueryStatus]) -> None:
    """How much waits, how fast it goes and how long it will take: nobody should have to guess whether it moves."""
    for query in queries:
        if (left := query.seconds_left) is not None and left > BEHIND:
            pace = f"{query.rows_per_second:,.0f} events a second"
            logger.info(
                f"{query.name} catches up", waiting=query.lag_events, pace=pace, left=f"{left:,.0f} s"
            )
