"""The stream of a view: from its source's log to its tail, kept fresh, folded, and started again where it ended."""

import time
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from braid.cut import last_closed
from braid.define.view import View
from braid.deploy.versions import Version
from braid.errors import BraidError, NotYet
from braid.lineage.datasets import log_of, tail_of
from braid.lineage.events import LineageJob
from braid.log import contents as logs
from braid.log.table import Log
from braid.runtime.logging import Logger
from braid.runtime.status import QueryStatus
from braid.states.calendar import watermark
from braid.tables import spark_tables
from braid.tables.commits import newest_commit
from braid.tables.delta_log import newest_version
from braid.tables.delta_rs import table_id
from braid.tables.tail_and_base import refuse_lost_base
from braid.tables.view_tables import ViewTables
from speed_layer import recovery
from speed_layer.jobs.checkpoint import Checkpoint
from speed_layer.jobs.job import Job, first_line
from speed_layer.stream.fold import Folding
from speed_layer.stream.follower import Companion, LogFollower
from speed_layer.stream.lag import Lag
from speed_layer.stream.tail import SMALL, TailWriter

logger = Logger("stream")

# What one micro-batch of a replay reads at most: enough to keep the cores busy, little enough for the memory.
MOST_BYTES = "256m"
# Seconds for which a stream that failed goes on by itself.
PROBATION = 60.0


@dataclass
class StreamJob(Job):
    """The stream of one version of a view."""

    version: Version = field(kw_only=True)
    tail_writer: TailWriter | None = None
    folding: Folding | None = None
    lag: Lag | None = None
    follower: Companion | None = None
    # Log -> who follows it for all streams of this process that are at its end.
    together: dict[str, LogFollower] = field(default_factory=dict)
    _failed: float = float("-inf")

    @property
    def view(self) -> View:
        return self.version.view

    @property
    def tables(self) -> ViewTables:
        return ViewTables(self.settings, self.view.name, self.version.number)

    @property
    def log(self) -> Log:
        return Log(self.view.source, self.settings)

    @property
    def name(self) -> str:
        return f"stream {self.view.name} v{self.version.number}"

    @property
    def definition(self) -> View:
        return self.view

    def lineage(self) -> LineageJob:
        log, tail = log_of(self.view.source, self.settings), tail_of(self.version, self.settings)
        return LineageJob(f"stream.{self.view.name}", "STREAMING", (log,), (tail,))

    @property
    def writer(self) -> TailWriter | None:
        return self.tail_writer

    @property
    def is_started(self) -> bool:
        return self.follower is not None or super().is_started

    @property
    def is_active(self) -> bool:
        return self.follower.is_active if self.follower is not None else super().is_active

    def start(self, once: bool) -> None:
        """A stream that has never run begins with the log's history, as a replay does: a query reads it.

        From there on, and at every later start, it follows the log's commits.
        """
        if not logs.exists(self.spark, self.log):
            raise NotYet(
                f"view {self.view.name!r} cannot start: the log of source {self.view.source.name!r} is not there "
                f"yet. Run `braid ingest {self.view.source.name}`, or `braid stream --ingest` for both in one."
            )
        self._create_tables()
        checkpoint = Checkpoint(self.tables.checkpoint, recovery.advice(self.view.name))
        checkpoint.verify()
        taken = recovery.takeover_of(self.tables.checkpoint)
        writer = TailWriter(
            spark=self.spark, checkpoint=checkpoint, view=self.view, tables=self.tables, log=self.log,
            clock=self.clock, from_day=self.version.from_day, replaces=taken.replaces if taken else None,
        )  # fmt: skip
        writer.begin()
        anew = f"`braid kappa replay {self.view.name}` builds it anew from the log."
        owner = f"view {self.view.name!r}"
        recovery.refuse_lost_checkpoint("tail", owner, checkpoint, writer.last, taken, writer.has_rows, anew)
        writer.wake()
        self.tail_writer, self.folding = writer, Folding(writer)
        self.folding.begin()
        self.lag = Lag(self.log.table)
        if self._is_past_history():
            self._follow(once)
        else:
            self._query_history(taken, once)
        logger.info("stream started", view=self.view.name, version=self.version.number, tail=self.tables.tail)

    def _query_history(self, taken: "recovery.Takeover | None", once: bool) -> None:
        assert self.tail_writer is not None
        events = self.tail_writer.incoming(self._read(taken))
        stream = events.writeStream.queryName(self.name).foreachBatch(self.tail_writer.append)
        stream = stream.option("checkpointLocation", self.tables.checkpoint)
        if once:
            stream = stream.trigger(availableNow=True)
        else:
            stream = stream.trigger(processingTime=f"{self.settings.stream_trigger.total_seconds()} seconds")
        self.query = stream.start()

    def _is_past_history(self) -> bool:
        """Whether the tail ends between two commits of the log: whoever reads the next one goes on there."""
        last = self.tail_writer.last if self.tail_writer is not None else None
        return last is not None and last.position.is_between_commits

    def _follow(self, once: bool) -> None:
        """With the others, or by itself until it may be."""
        assert self.tail_writer is not None
        self.follower = Companion(self.tail_writer)
        alone = LogFollower(self.name, self.log, self.settings.stream_trigger, once)
        self.follower.follow(self._shared if not once and self._may_join() else alone)

    def _join_the_others(self) -> None:
        if self.follower is not None and self.follower.reader is not self._shared and self._may_join():
            self.follower.leave()
            if self.follower.failure is None:
                self.follower.follow(self._shared)

    @property
    def _shared(self) -> LogFollower:
        source, pause = self.view.source.name, self.settings.stream_trigger
        return self.together.setdefault(self.log.table, LogFollower(f"streams of {source}", self.log, pause))

    def _may_join(self) -> bool:
        """Near the log's end, so that one small job brings it there; who has failed lately holds up nobody again."""
        last = self.tail_writer.last if self.tail_writer is not None else None
        behind = self.lag.beyond(last.position) if self.lag is not None and last is not None else None
        return behind is not None and behind[0] <= SMALL and time.monotonic() - self._failed > PROBATION

    def tend(self) -> None:
        assert self.tail_writer is not None
        if self.query is not None and self._is_past_history():
            self.stop()
            self.query = None
            self.tail_writer.stopping.clear()
            self._follow(once=False)
        self._join_the_others()

    def upkeep(self) -> bool:
        assert self.folding is not None
        self.folding.writer.tend()
        return self.folding.tend()

    def stop(self) -> None:
        super().stop()
        if self.follower is not None:
            self.follower.stop()

    def collapse(self) -> None:
        if self.follower is None:
            super().collapse()
            return
        failure, self.follower = self.follower.failure, None
        if failure is not None:
            self._failed = time.monotonic()
            self._put_off(self._explained(failure), needs_a_person=True)

    def finish(self, once: bool) -> None:
        """A stream that stops leaves its folds for the next start; one that was run for its result does them."""
        if once and self.folding is not None:
            self.folding.tidy()
        if self.tail_writer is not None:
            self.tail_writer.settle()
            self.tail_writer.rest()

    def explain(self, failure: Exception) -> Exception:
        text = str(failure)
        if any(word in text for word in ("checkpoint location", self.tables.checkpoint)):
            return BraidError(
                f"the checkpoint of view {self.view.name!r} cannot be used: {first_line(failure)}. "
                f"{recovery.advice(self.view.name)}"
            )
        return RuntimeError(first_line(failure))

    def progress(self) -> dict[str, Any]:
        if self.follower is None:
            return super().progress()
        rows, took = self.follower.batch_rows, self.follower.batch_ms
        if not took:
            return {}
        return {"processedRowsPerSecond": rows * 1000 / took, "durationMs": {"triggerExecution": took}}

    def status(self) -> QueryStatus:
        writer, progress = self.tail_writer, self.progress()
        last = writer.last if writer else None
        lag = self.lag.beyond(last.position) if self.lag and last else None
        return QueryStatus(
            name=self.name, kind="stream", view=self.view.name, version=self.version.number,
            source=self.view.source.name,
            state="retrying" if self.error else "running" if self.is_started else "starting",
            error=str(self.error) if self.error else None, retry_in=self.retry_in,
            batch=last.batch if last else None,
            rows_per_second=progress.get("processedRowsPerSecond"),
            batch_ms=progress.get("durationMs", {}).get("triggerExecution"),
            lag_events=lag[0] if lag else None, lag_seconds=lag[1] if lag else None,
            events=writer.counts.events if writer else 0,
            late=writer.counts.late if writer else 0,
            revised=writer.counts.revised if writer else 0,
            files=self.folding.files.total() if self.folding else None,
            epoch=last.epoch if last else None,
            watermark=watermark(self.view, writer.seen) if writer else None,
        )  # fmt: skip

    def _create_tables(self) -> None:
        """With the replay's cut: all of the log up to it is stored under it, in whatever order it is read."""
        refuse_lost_base(self.tables)
        if newest_version(self.tables.tail) is None or newest_version(self.tables.base) is None:
            newest = newest_commit(self.log.table)
            cut = last_closed(newest.epoch, self.settings.epoch) if newest else None
            spark_tables.create(self.spark, self.tables, self.view, cut, table_id(self.log.table))

    def _read(self, taken: "recovery.Takeover | None") -> DataFrame:
        reader = self.spark.readStream.format("delta").option("maxBytesPerTrigger", MOST_BYTES)
        if taken is not None:
            reader = reader.option("startingVersion", taken.version)
        return reader.load(self.log.table)
