"""Writes micro-batches of a log to a view's tail as partial states, each batch exactly once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from braid.cut import complete_after
from braid.define.fingerprint import state_fingerprint, used_columns, used_lookups
from braid.define.schema import quote
from braid.define.view import View
from braid.errors import BraidError
from braid.log.contents import read_commits
from braid.log.events import view_events
from braid.log.lookups import LookupTables
from braid.log.table import Log
from braid.runtime.logging import Logger
from braid.runtime.spark import from_arrow
from braid.states.spark_calendar import no_rows, timestamp
from braid.tables import delta_rs
from braid.tables.appending import NO_ROWS, Appending, appending
from braid.tables.commits import Position, TailCommit, newest_tail_commit
from braid.tables.delta_log import Transaction
from braid.tables.tail_and_base import refuse_other_log, refuse_second_tail, replay_cut
from braid.tables.view_tables import ViewTables
from braid.writing import Batch, may_speak
from speed_layer.jobs.batch_writer import BatchWriter
from speed_layer.jobs.checkpoint import Plan
from speed_layer.stream.counts import Counts, highest, rows_in
from speed_layer.stream.log_commits import LogCommits, position_of
from speed_layer.stream.small_fold import SmallFold, small_fold
from speed_layer.stream.states import LiveBatch, StatesOf, newest_of

logger = Logger("stream")

# Up to this many rows one task is faster than two and the exchange between them.
SMALL = 20_000


@dataclass(kw_only=True)
class TailWriter(BatchWriter):
    """The only writer of one tail. `last` is its newest commit, `seen` the largest event time so far."""

    view: View
    tables: ViewTables
    log: Log
    clock: Callable[[], datetime]
    replay_cut: datetime | None = None
    from_day: date | None = None
    has_rows: bool = False
    log_id: str | None = None
    last: TailCommit | None = None
    seen: datetime | None = None
    counts: Counts = field(default_factory=Counts)

    def begin(self) -> None:
        """Looks up, once per start of the query, what is already in the tail."""
        # Before its turn: whoever commits after this is met.
        self._appending = appending(self.tables.tail, "epoch")
        self.take_turn(self.log.settings)
        self.last = newest_tail_commit(self.tables.tail)
        self.has_rows = self.last is not None or delta_rs.has_rows(self.tables.tail)
        self.seen = self.last.seen if self.last else None
        self.replay_cut = self.last.replay_cut if self.last else replay_cut(self.tables)
        if self.last is not None and self.last.states != state_fingerprint(self.view):
            raise BraidError(
                f"the tables at {self.tables.folder} hold the states of another definition than view "
                f"{self.view.name!r}: was its deployment.json lost or edited? Restore it, or move the folder "
                f"{self.tables.settings.location('views', self.view.name)} away to begin anew from the log."
            )
        if self.last is None:
            refuse_second_tail(self.tables, self.replay_cut)
        self.log_id = delta_rs.table_id(self.log.table)
        refuse_other_log(self.log.table, self.tables, self.last)

    def incoming(self, log: DataFrame) -> DataFrame:
        """What the micro-batches are to bring: the view's events, or what they are made of where a table is joined.

        Asked of the stream, and not within each batch: there, Spark reads every column of the log before it looks at
        what is done with them, and plans anew at every batch what is always the same.
        """
        rows = log if self.from_day is None else log.where(f"day >= date'{self.from_day}'")
        if self.replay_cut is not None:
            # Before they are grouped: history is one state per pane and keys, however many epochs it came in.
            rows = rows.withColumn("_epoch", F.expr(f"greatest(_epoch, {timestamp(self.replay_cut)})"))
        if used_lookups(self.view):
            needed = [*used_columns(self.view), "day", "_epoch", "_error"]
            return rows.where("_error is null").selectExpr(*map(quote, needed))
        return view_events(self.view, rows, LookupTables(self.spark, self.log.settings).table_of)

    def write_batch(self, rows: DataFrame, query: str, batch: int, plan: Plan) -> None:
        """A batch of a query, which reads what was there when the stream began."""
        if not self._is_committed(query, batch, position := position_of(plan)):
            refuse_other_log(self.log.table, self.tables, self.last)
            start = self.last.position if self.last else None
            self._append(rows, query, batch, position, self._commits.arrived(start, position))

    def prepared(self, rows: DataFrame | None) -> LiveBatch:
        """What the live edge wants of this view's part of a micro-batch, before Spark has computed any of it."""
        lookups = LookupTables(self.spark, self.log.settings)
        if rows is None:
            return LiveBatch(lookups)
        return LiveBatch(lookups, self._states_of.for_arrow(self._events(self.incoming(rows), lookups)))

    def take(self, commits: Sequence[Transaction], read: LiveBatch) -> int | None:
        """Appends what was read of the log's next commits, together with the position behind them."""
        with self.lock:
            assert self.last is not None
            if not may_speak(self.in_doubt):
                # Its query was stopped within a commit that failed: a new start looks up whether it was made.
                raise RuntimeError(f"the newest commit to the tail of view {self.view.name!r} is in doubt")
            self._commits.read, arrived = commits[-1], rows_in(commits)
            position = Position(commits[-1].version + 1)
            query, batch = self.last.query, self.last.batch + 1
            if read.is_large:
                rows = self.incoming(read_commits(self.spark, self.log, commits))
                self._append(rows, query, batch, position, arrived)
            else:
                self._append_live(read, query, batch, position)
            return arrived

    def _append(
        self, rows: DataFrame | None, query: str, batch: int, position: Position, arrived: int | None
    ) -> None:
        """By Spark, which also writes: history, and what is too large to pass through Python."""
        lookups = LookupTables(self.spark, self.log.settings)
        if rows is None or arrived == 0:
            self._write(NO_ROWS, self._next(query, batch, position, lookups))
            return
        rows = rows.coalesce(1) if arrived is not None and arrived <= SMALL else rows
        states, observations = self._states_of.by_spark(self._events(rows, lookups), self.seen)
        commit = self._next(query, batch, position, lookups)
        self._write(states, commit)
        seen = self.counts.add(self.spark, observations, self.table, self.last or commit, self.view)
        self.seen = highest(self.seen, seen, self.clock())

    def _append_live(self, read: LiveBatch, query: str, batch: int, position: Position) -> None:
        states = read.states
        rows = self._states_of.in_arrow(states, self.seen) if states is not None else NO_ROWS
        self._write(rows, self._next(query, batch, position, read.lookups))
        if states is not None:
            self.counts.add_rows(rows, self.replay_cut)
            self.seen = highest(self.seen, newest_of(states), self.clock())

    def _next(self, query: str, batch: int, position: Position, lookups: LookupTables) -> TailCommit:
        last, epoch = self.last, None
        if not position.starting:
            epoch = self._commits.epoch_before(position.version) or (last.epoch if last else None)
        return TailCommit(
            query=query, batch=batch, position=position, states=state_fingerprint(self.view), epoch=epoch,
            complete=complete_after(epoch, self.log.settings.epoch, position.starting),
            seen=self.seen, replay_cut=self.replay_cut, replaying=position.starting,
            collected=last.collected if last else -1, needs=last.needed if last else -1, base=last.base if last else "",
            lookups=lookups.versions, log=self.log_id or "", read=self._commits.mark_before(position),
        )  # fmt: skip

    def _events(self, rows: DataFrame, lookups: LookupTables) -> DataFrame:
        return view_events(self.view, rows, lookups.table_of) if used_lookups(self.view) else rows

    def say(self, writer: Any, commit: TailCommit) -> None:
        """Commits something that is not a batch, such as a fold; the lock is held."""
        if isinstance(writer, SmallFold):
            assert self._appending is not None
            self.last = self.save_rows(self._appending, writer.rows, commit, writer.files)
        else:
            self.last = self.save(writer, commit)

    def small_fold(
        self, name: str, epochs: Sequence[datetime], through: Mapping[date, datetime]
    ) -> SmallFold | None:
        """Epochs folded in memory, where the tail is on this disk and they are small."""
        if self._appending is None:
            return None
        return small_fold(name, self.view, self._appending, epochs, through)

    def settle(self) -> None:
        """Says what was seen since the last commit, so that the next start knows it."""
        with self.lock:
            commit = self.settled()
            if commit is not None and self.last is not None and commit.seen != self.last.seen:
                self.repeat()

    def tend(self) -> None:
        """Spark makes a checkpoint of a table's log at every so many of its own commits: these are not its own."""
        if self._appending is not None:
            self._appending.tend()

    @property
    def table(self) -> str:
        return self.tables.tail

    @property
    def word(self) -> TailCommit | None:
        return self.last

    def repeat(self) -> None:
        if (commit := self.settled()) is not None:
            self.last = self._save(NO_ROWS, commit)

    def settled(self) -> TailCommit | None:
        """The newest commit with what was seen since, to be said again with a fold; None while it is in doubt."""
        if self.last is None or not may_speak(self.in_doubt):
            return None
        return replace(self.last, seen=self.seen, fold=True)

    def _is_committed(self, query: str, batch: int, position: Position) -> bool:
        there = Batch(self.last.query, self.last.batch, self.last.position) if self.last else None
        return self.is_there(there, Batch(query, batch, position), "tail", f"view {self.view.name!r}")

    def _write(self, states: DataFrame | pa.Table, commit: TailCommit) -> None:
        self.last = self._save(states, commit)
        self.batches += 1
        logger.debug("batch committed", view=self.view.name, batch=commit.batch, epoch=commit.epoch)

    def _save(self, states: DataFrame | pa.Table, commit: TailCommit) -> TailCommit:
        """Rows in memory are committed by this process, where the tail is on its own disk; all others by Spark."""
        if isinstance(states, pa.Table) and self._appending is not None:
            return self.save_rows(self._appending, states, commit)
        if isinstance(states, pa.Table):
            states = from_arrow(self.spark, states, self._schema) if len(states) else self.nothing()
        return self.save(states.write.format("delta").mode("append"), commit)

    def nothing(self) -> DataFrame:
        return no_rows(self.spark, self._schema)

    @cached_property
    def _schema(self) -> StructType:
        return self.spark.read.format("delta").load(self.tables.tail).schema

    @cached_property
    def _commits(self) -> LogCommits:
        return LogCommits(self.log.table)

    @cached_property
    def _states_of(self) -> StatesOf:
        return StatesOf(self.view, self.replay_cut)

    # None where only Spark knows how to commit.
    _appending: Appending | None = None
