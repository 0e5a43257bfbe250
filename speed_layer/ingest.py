"""The ingest job: from Kafka or a folder into each source's log, every record exactly once."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from braid import log as logs
from braid.errors import BraidError
from braid.log import Log
from braid.logs import Log as Logger
from braid.settings import Settings
from braid.source import Source
from braid.storage import Storage
from speed_layer import dedup, records, recovery
from speed_layer.appender import Appender, Counted
from speed_layer.checkpoint import Checkpoint
from speed_layer.driver import only_driver
from speed_layer.kafka import require_topic
from speed_layer.parse import parse, unknown_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = Logger("ingest")

DRIFT = "drift"
FIRST_BACKOFF, LAST_BACKOFF = 1.0, 60.0


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Job:
    """The ingest of one source: its query, its writer, and when to try again after a failure."""

    spark: "SparkSession"
    log: Log
    clock: Callable[[], datetime] = utc_now
    query: "StreamingQuery | None" = None
    backoff: float = 0.0
    retry_at: float = 0.0
    appender: Appender = field(init=False)

    @property
    def source(self) -> Source:
        return self.log.source

    def start(self, once: bool) -> None:
        """Checks everything that can be checked, then starts the query from where the log ends."""
        source, settings = self.source, self.log.settings
        if source.kafka_topic:
            require_topic(source, settings)
        else:
            records.folder_of(source)
        logs.create(self.spark, self.log)
        storage = Storage(self.spark)
        storage.make_folder(self.log.inbox)
        checkpoint = Checkpoint(storage, self.log.checkpoint, recovery.advice(source))
        checkpoint.verify()
        takeover = recovery.takeover(storage, self.log)
        self.appender = Appender(
            self.spark,
            self.log,
            checkpoint,
            self.clock,
            self._counted,
            takeover.replaces if takeover else None,
        )
        self.appender.begin()
        recovery.refuse_lost_checkpoint(self.log, checkpoint, self.appender.last, takeover)
        self._tune_parquet()
        rows = self._plan(takeover)
        writer = rows.writeStream.queryName(f"ingest {source.name}").foreachBatch(self.appender.append)
        writer = writer.option("checkpointLocation", self.log.checkpoint)
        interval = f"{settings.trigger.total_seconds()} seconds"
        self.query = (
            writer.trigger(availableNow=True) if once else writer.trigger(processingTime=interval)
        ).start()
        logger.info("ingest started", source=source.name, log=self.log.table)

    def _tune_parquet(self) -> None:
        """Values that hardly repeat are not worth a dictionary: building one takes a fifth of the writing."""
        hadoop = self.spark._jsc.hadoopConfiguration()
        for column in ("_offset", self.source.event_id):
            hadoop.set(f"parquet.enable.dictionary#{column}", "false")

    def _plan(self, takeover: "recovery.Takeover | None") -> "DataFrame":
        start = recovery.starting_positions(self.log, takeover)
        arriving = records.stream(self.spark, self.log, start)
        if drift := unknown_fields(self.source):
            arriving = arriving.observe(DRIFT, *drift)
        return dedup.drop_duplicates(self.source, parse(self.source, arriving), self.appender.floor)

    def _counted(self, batch: int) -> Counted | None:
        """What the engine says of a batch that this very query has finished; None if a crash took it along."""
        if self.query is None:
            return None
        for progress in reversed(self.query._jsq.recentProgress()):
            if progress.batchId() == batch and progress.durationMs().containsKey("addBatch"):
                operators = progress.stateOperators()
                dropped = operators[0].customMetrics().get("numDroppedDuplicateRows") if len(operators) else 0
                observed: Any = progress.observedMetrics().get(DRIFT)
                found = [observed.get(i) for i in range(observed.size())] if observed is not None else []
                names = {name for text in found if text for name in text.split("\u0000")}
                if names - set(self.appender.last.unknown_fields if self.appender.last else ()):
                    logger.warning("unknown fields", source=self.source.name, fields=sorted(names))
                return Counted(int(dropped or 0), tuple(names))
        return None

    def stop(self) -> None:
        """Stops between micro-batches: one that has begun to write is waited for, another one does not begin."""
        if self.query is None:
            return
        self.appender.stopping.set()
        with self.appender.lock:
            self.query.stop()

    def failure(self) -> Exception | None:
        return self.query.exception() if self.query is not None and not self.query.isActive else None


def ingest(
    spark: "SparkSession",
    sources: Sequence[Source],
    settings: Settings,
    *,
    once: bool = False,
    stop: threading.Event | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> None:
    """Runs until all has been read (`once`) or until `stop` is set."""
    stop = stop or threading.Event()
    jobs = [Job(spark, Log(source, settings), clock) for source in sources]
    with ExitStack() as held:
        for job in jobs:
            held.enter_context(only_driver(spark, settings, f"ingest-{job.source.name}"))
        try:
            for job in jobs:
                job.start(once)
            _watch(jobs, once, stop)
        finally:
            for job in jobs:
                job.stop()
        for job in jobs:
            job.appender.close_epoch()
            logger.info("ingest stopped", source=job.source.name, batches=job.appender.batches)


def _watch(jobs: list[Job], once: bool, stop: threading.Event) -> None:
    """Waits, beats for idle sources, and starts again what failed; with `once` a failure ends the job."""
    while not stop.wait(0.1 if once else 0.2):
        for job in jobs:
            failure = job.failure()
            if failure is not None:
                _mind(job, failure, once)
            elif job.query is None and time.monotonic() >= job.retry_at:
                _retry(job)
            elif not once:
                job.appender.beat()
                if job.appender.batches:
                    job.backoff = 0.0
        if once and not any(job.query is not None and job.query.isActive for job in jobs):
            for job in jobs:
                if (failure := job.failure()) is not None:
                    _mind(job, failure, once)
            return


def _mind(job: Job, failure: Exception, once: bool) -> None:
    error = explain(job, failure)
    if isinstance(error, BraidError):
        raise error
    if once:
        raise BraidError(
            f"ingest of source {job.source.name!r} failed: {error}. Nothing is lost: run it again."
        )
    job.query = None
    job.backoff = min(max(FIRST_BACKOFF, job.backoff * 2), LAST_BACKOFF)
    job.retry_at = time.monotonic() + job.backoff
    logger.error("ingest failed", source=job.source.name, reason=str(error), again_in=f"{job.backoff:g} s")


def _retry(job: Job) -> None:
    from pyspark.errors import PySparkException

    try:
        job.start(once=False)
    except (BraidError, PySparkException) as error:
        job.backoff = min(job.backoff * 2, LAST_BACKOFF)
        job.retry_at = time.monotonic() + job.backoff
        logger.error(
            "ingest cannot start",
            source=job.source.name,
            reason=str(error).split("\n")[0],
            again_in=f"{job.backoff:g} s",
        )


def explain(job: Job, failure: Exception) -> Exception:
    """What a person can mend becomes a BraidError; the rest is tried again."""
    if job.appender.refusal is not None:
        return job.appender.refusal
    text = str(failure)
    first = text.strip().split("\n")[0]
    if any(word in text for word in ("state store", "StateStore", "checkpoint location", job.log.checkpoint)):
        return BraidError(
            f"the checkpoint of source {job.source.name!r} cannot be used: {first}. {recovery.advice(job.source)}"
        )
    return RuntimeError(first)
