"""Appends micro-batches to a log, each exactly once, and keeps its epochs moving when nothing arrives."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from braid.errors import BraidError
from braid.log.events import log_schema
from braid.log.table import Log
from braid.runtime.logging import Logger
from braid.states.spark_calendar import no_rows, timestamp
from braid.tables import delta_rs
from braid.tables.commits import Commit, epoch_of, newest_commit, next_epoch
from braid.writing import Batch, beat_due, closing_epoch, is_older_table, may_speak
from speed_layer.jobs.batch_writer import BatchWriter
from speed_layer.jobs.checkpoint import Plan

logger = Logger("ingest")

# All who use a table in one process share what Delta knows of it. A stream that looks at the log in the moment between
# a commit and Delta's note about it puts one without totals in its place, and the next commit counts the whole table
# anew: three jobs more, at every commit. Whoever names a setting of the file system, any, is given a Delta of its own.
APART = {"fs.braid.writer": "ingest"}
# Up to this many records one task is faster than several.
SMALL = 10_000


def wall_clock() -> datetime:
    """The clock that Spark stamps its batches with."""
    return datetime.now(UTC)


class ClockWentBack(Exception):
    """Ends a micro-batch before anything is written; the next start knows the later time."""


@dataclass
class Counted:
    """What the engine tells of a finished micro-batch."""

    duplicates: int
    unknown_fields: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Appender(BatchWriter):
    """The only writer of one log. `last` is the newest commit."""

    log: Log
    clock: Callable[[], datetime]
    counted: Callable[[int], Counted | None]
    # The epoch before which there are rows already, where no commit says so.
    after: datetime | None = None
    has_rows: bool = False
    last: Commit | None = None
    # The latest time that deduplication has seen, and how far that is ahead of the machine's clock: after a clock has
    # jumped forward and back, time goes on from there.
    floor: datetime = field(init=False)
    ahead: timedelta = timedelta(0)
    elapsed: Callable[[], float] = time.monotonic
    # When the epoch of the last commit began, as this process knows.
    _began: float = field(default_factory=time.monotonic)
    # The batch of this start whose count is still to come: the engine gives it when it has finished the batch.
    _awaited: int | None = None

    def begin(self) -> None:
        """Looks up, once per start of the query, what is already in the log."""
        self.take_turn(self.log.settings)
        self.last, self._awaited = newest_commit(self.log.table), None
        self.has_rows = self.last is not None or delta_rs.has_rows(self.log.table)
        self.floor = self.last.clock if self.last else self.log.source.earliest
        self.ahead = max(self.floor - wall_clock(), timedelta(0)) if self.last else timedelta(0)
        self._began = self.elapsed()

    def write_batch(self, rows: DataFrame, query: str, batch: int, plan: Plan) -> None:
        """A batch that is in the log already is only run through, to advance the state."""
        before, self._plan = self._plan or self._plan_before(batch), plan
        if self._is_committed(query, batch, plan):
            _run_through(rows)
            return
        if before is not None and plan.ends == before.ends:
            # Spark planned this batch only to advance its watermark: there is nothing to append.
            _run_through(rows)
            return
        self._refuse_older_log(query, batch)
        self._refuse_old_clock(plan)
        commit = self._next(query, batch, plan)
        self._write(rows.coalesce(1) if self._is_small(commit) else rows, commit)
        self._awaited = batch
        logger.debug("batch committed", source=self.log.source.name, batch=batch, epoch=commit.epoch)

    def beat(self) -> bool:
        """Closes the epoch of an idle source: an empty commit with the last batch and the new epoch."""
        with self.lock:
            if self.last is None or not may_speak(self.in_doubt) or self._is_being_counted(self.last):
                return False
            length, present = self.log.settings.epoch, epoch_of(self.clock(), self.log.settings.epoch)
            epoch = beat_due(self.last.epoch, present, self.last.beat, self._waited(), length)
            if epoch is None:
                return False
            self._write(self._nothing(), replace(self._settled(), epoch=epoch, beat=True))
            return True

    def close_epoch(self) -> None:
        """Ends the present epoch: all that was ingested can be cut, also when ingest does not run."""
        with self.lock:
            if self.last is None or not may_speak(self.in_doubt):
                return
            epoch = closing_epoch(self.last.epoch, self.last.beat, self.log.settings.epoch)
            if epoch is not None:
                self._write(self._nothing(), replace(self._settled(), epoch=epoch, beat=True))

    @property
    def table(self) -> str:
        return self.log.table

    @property
    def word(self) -> Commit | None:
        return self.last

    def repeat(self) -> None:
        if self.last is not None:
            self._write(self._nothing(), replace(self._settled(), beat=True))

    def _waited(self) -> timedelta:
        """How long ago the newest epoch began, whatever the machine's clock says."""
        return timedelta(seconds=self.elapsed() - self._began)

    def _plan_before(self, batch: int) -> Plan | None:
        return self.checkpoint.plan(batch - 1) if batch > 0 else None

    def _is_committed(self, query: str, batch: int, plan: Plan) -> bool:
        there = Batch(self.last.query, self.last.batch, self.last.end) if self.last else None
        mine = Batch(query, batch, plan.kafka_end(self.log.source.kafka_topic))
        return self.is_there(there, mine, "log", f"source {self.log.source.name!r}")

    def _refuse_older_log(self, query: str, batch: int) -> None:
        """A log from a backup, beside a checkpoint that has gone on since: what it had read is not read again."""
        if self.last is None or self.last.query != query or batch - self.last.batch == 1:
            return
        between = range(self.last.batch, batch)
        planned = {
            number: self.checkpoint.plan(number) for number in between if self.checkpoint.has_plan(number)
        }
        if is_older_table(self.last.batch, batch, {number: plan.ends for number, plan in planned.items()}):
            raise BraidError(
                f"the log of source {self.log.source.name!r} is older than its checkpoint (batch {self.last.batch} "
                f"against {batch - 1}): what was read in between is not in it. Restore both as they were at one "
                f"moment. {self.checkpoint.mend}"
            )

    def _refuse_old_clock(self, plan: Plan) -> None:
        """Deduplication relies on a clock that does not go back by a horizon: a new start holds it where it was."""
        present = max(plan.clock + self.ahead, self.floor)
        if self.last is not None and present < self.last.clock - self.log.source.horizon:
            raise ClockWentBack(f"the clock went back from {self.last.clock} to {plan.clock}")

    def _next(self, query: str, batch: int, plan: Plan) -> Commit:
        topic = self.log.source.kafka_topic
        end = plan.kafka_end(topic)
        known = self.last.start if self.last else {}
        first = {} if known.keys() >= end.keys() else self.checkpoint.first_offsets(topic)
        start = {partition: known.get(partition, max(0, first.get(partition, 0))) for partition in end}
        last = self.last.epoch if self.last else self.after
        epoch = next_epoch(last, self.clock(), self.log.settings.epoch, self._waited())
        settled = self._settled() if self.last else None
        return Commit(
            query=query, batch=batch, epoch=epoch, start=start, end=end,
            clock=max(plan.clock + self.ahead, settled.clock) if settled else plan.clock,
            duplicates=settled.duplicates if settled else 0,
            uncounted=settled.uncounted if settled else 0,
            unknown_fields=settled.unknown_fields if settled else (),
        )  # fmt: skip

    def _is_small(self, commit: Commit) -> bool:
        """Whether one task and one file are faster than one for each of Kafka's partitions.

        Not where ids are remembered: their state has its own tasks, which are not to be run in one.
        """
        if self.log.source.event_id is not None or not commit.end:
            return False
        begun = sum(commit.start.values()) if self.last is None else sum(self.last.end.values())
        return sum(commit.end.values()) - begun <= SMALL

    def _is_being_counted(self, last: Commit) -> bool:
        """A beat right after a batch would say that its count is lost, and it is only a moment away."""
        return not last.beat and last.batch == self._awaited and self.counted(last.batch) is None

    def _settled(self) -> Commit:
        """The last commit with what the engine has counted of its batch since; a count that a crash took is said."""
        assert self.last is not None
        if self.last.beat:
            return self.last
        count = self.counted(self.last.batch)
        if count is None:
            return replace(self.last, uncounted=self.last.uncounted + 1)
        fields = sorted({*self.last.unknown_fields, *count.unknown_fields})
        return replace(
            self.last, duplicates=self.last.duplicates + count.duplicates, unknown_fields=tuple(fields)
        )

    def _write(self, rows: DataFrame, commit: Commit) -> None:
        # Delta finds columns by their names: to put them in order would only cost time.
        writer = (
            rows.withColumn("_epoch", F.expr(timestamp(commit.epoch))).write.format("delta").options(**APART)
        )
        before, self.last = self.last, self.save(writer.mode("append"), commit)
        if before is None or before.epoch != commit.epoch:
            self._began = self.elapsed()
        self.batches += not commit.beat

    def _nothing(self) -> DataFrame:
        return no_rows(self.spark, log_schema(self.log.source))

    _plan: Plan | None = None


def _run_through(rows: DataFrame) -> Any:
    """A batch that is not written must still run: its state would lack a version otherwise."""
    rows.write.format("noop").mode("overwrite").save()
