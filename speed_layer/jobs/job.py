"""One streaming query that runs for good: started, tended, started again after a failure, stopped between batches."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from braid.errors import BraidError
from braid.lineage.events import LineageJob
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings
from braid.runtime.status import QueryStatus
from speed_layer.jobs.batch_writer import MicroBatches, Stopping

logger = Logger("jobs")

FIRST_BACKOFF, LAST_BACKOFF = 1.0, 60.0


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Job(ABC):
    """A query, its writer, and when to try again after a failure."""

    spark: SparkSession
    settings: Settings
    clock: Callable[[], datetime] = utc_now
    query: StreamingQuery | None = None
    error: Exception | None = None
    has_run: bool = False
    needs_a_person: bool = False
    backoff: float = 0.0
    retry_at: float = 0.0

    @property
    @abstractmethod
    def name(self) -> str:
        """Stable: of its lock, its query, and in what is said about it."""

    @property
    @abstractmethod
    def definition(self) -> object:
        """What it computes: a job whose definition has changed is started anew."""

    @abstractmethod
    def lineage(self) -> LineageJob:
        """What it reads and writes."""

    @property
    @abstractmethod
    def writer(self) -> MicroBatches | None:
        """None before the first start."""

    @property
    def is_started(self) -> bool:
        return self.query is not None

    @property
    def is_active(self) -> bool:
        """Whether what was started still runs."""
        return self.query is not None and self.query.isActive

    @abstractmethod
    def start(self, once: bool) -> None:
        """Checks everything that can be checked, then starts the query."""

    @abstractmethod
    def tend(self) -> None:
        """What is to be done between micro-batches."""

    @abstractmethod
    def finish(self, once: bool) -> None:
        """What is left to do after the query was stopped for good."""

    @abstractmethod
    def explain(self, failure: Exception) -> Exception:
        """What a person can mend becomes a BraidError; the rest is only tried again."""

    @abstractmethod
    def status(self) -> QueryStatus: ...

    def try_start(self, once: bool) -> None:
        """A start that fails is tried again later, like a query that fails."""
        # A query works in the pool of the thread that started it.
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.name)
        try:
            self.start(once)
        except (BraidError, PySparkException) as error:
            # What once ran may run again by itself, when a broker is back; a first start waits for nobody.
            self._put_off(self._explained(error), needs_a_person=not self.has_run)
        else:
            self.error, self.has_run, self.needs_a_person = None, True, False

    def mind(self) -> None:
        """Looks after the query: notices that it ended, starts it again when it is time, tends it while it runs."""
        if not self.is_started:
            if time.monotonic() >= self.retry_at:
                self.try_start(once=False)
        elif not self.is_active:
            self.collapse()
        else:
            self._tend()
            if self.writer is not None and self.writer.batches:
                self.backoff = 0.0

    def collapse(self) -> None:
        """Takes note of a query that has ended; without an error, or with our own stop, it has simply finished."""
        failure = self.query.exception() if self.query is not None else None
        self.query = None
        cause = self.writer.failure if self.writer is not None else None
        if failure is not None and not isinstance(cause, Stopping):
            self._put_off(self._explained(cause or failure), needs_a_person=True)

    def stop(self) -> None:
        """Stops between micro-batches: one that has begun to write is waited for, another one does not begin."""
        if self.query is None or self.writer is None:
            return
        self.writer.stopping.set()
        with self.writer.lock:
            self.query.stop()

    def progress(self) -> dict[str, Any]:
        """What the engine says of its newest micro-batch; nothing before there was one.

        As JSON: PySpark's own objects are made with a hundred calls into the JVM, and this is asked every second.
        """
        report = self.query._jsq.lastProgress() if self.query is not None else None
        return dict(json.loads(report.json())) if report is not None else {}

    def _tend(self) -> None:
        try:
            self.tend()
        except (Py4JNetworkError, ConnectionError):
            # Spark is gone, for all of them.
            raise
        except Exception as error:
            self.stop()
            self._put_off(self._explained(error), needs_a_person=True)

    def _explained(self, error: Exception) -> Exception:
        return error if isinstance(error, BraidError) else self.explain(error)

    def _put_off(self, error: Exception, needs_a_person: bool) -> None:
        self.query, self.error = None, error
        self.needs_a_person = needs_a_person and isinstance(error, BraidError)
        self.backoff = min(max(FIRST_BACKOFF, self.backoff * 2), LAST_BACKOFF)
        self.retry_at = time.monotonic() + self.backoff
        logger.error(f"{self.name} failed", reason=str(error).split("\n")[0], again_in=f"{self.backoff:g} s")

    @property
    def retry_in(self) -> float | None:
        return max(0.0, self.retry_at - time.monotonic()) if self.error is not None else None


def first_line(failure: Exception) -> str:
    return str(failure).strip().split("\n")[0]
