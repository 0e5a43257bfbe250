"""Writes micro-batches of a log to a view's tail as partial states, each batch exactly once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

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
from braid.states import EVENTS
from braid.states.calendar import late_before, watermark
from braid.states.spark import preparation
from braid.states.spark_calendar import no_rows, timestamp
from braid.tables import delta_rs
from braid.tables.commits import Commit, Position, TailCommit, newest_tail_commit
from braid.tables.delta_log import Transaction, transaction
from braid.tables.tail_and_base import refuse_other_log, refuse_second_tail, replay_cut
from braid.tables.view_tables import LATE, ViewTables, bounds, tail_columns
from braid.writing import Batch, may_speak
from speed_layer.jobs.batch_writer import BatchWriter
from speed_layer.jobs.checkpoint import Plan
from speed_layer.stream.counts import Counts, highest, observed, rows_in

logger = Logger("stream")

# Up to this many rows one task is faster than two and the exchange between them.
SMALL = 20_000
# Up to this many commits it is worth adding up their rows.
FEW = 20


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
            self._append(rows, query, batch, position, self._arrived(position))

    def follow(self, commits: Sequence[Transaction]) -> int | None:
        """The next commits of the log, once history is read; how many rows they brought, where that is known.

        The position in the tail's own commit says what comes next, so that no other record of it is needed.
        """
        with self.lock:
            assert self.last is not None
            if not may_speak(self.in_doubt):
                # Its query was stopped within a commit that failed: a new start looks up whether it was made.
                raise RuntimeError(f"the newest commit to the tail of view {self.view.name!r} is in doubt")
            self._read = commits[-1]
            arrived = rows_in(commits)
            rows = self.incoming(read_commits(self.spark, self.log, commits)) if arrived != 0 else None
            position = Position(commits[-1].version + 1)
            self._append(rows, self.last.query, self.last.batch + 1, position, arrived)
            return arrived

    def _append(
        self, rows: DataFrame | None, query: str, batch: int, position: Position, arrived: int | None
    ) -> None:
        lookups = LookupTables(self.spark, self.log.settings)
        states, observations = self._states(rows, lookups, arrived)
        epoch, last = None if position.starting else self._epoch_before(position.version), self.last
        commit = TailCommit(
            query=query, batch=batch, position=position, states=state_fingerprint(self.view), epoch=epoch,
            complete=complete_after(epoch, self.log.settings.epoch, position.starting),
            seen=self.seen, replay_cut=self.replay_cut, replaying=position.starting,
            collected=last.collected if last else -1, needs=last.needed if last else -1, base=last.base if last else "",
            lookups=lookups.versions, log=self.log_id or "", read=self._mark_before(position),
        )  # fmt: skip
        self._write(states, commit)
        seen = self.counts.add(self.spark, observations, self.table, self.last or commit, self.view)
        self.seen = highest(self.seen, seen, self.clock())

    def say(self, writer: Any, commit: TailCommit) -> None:
        """Commits something that is not a batch, such as a fold; the lock is held."""
        self.last = self.save(writer, commit)

    def settle(self) -> None:
        """Says what was seen since the last commit, so that the next start knows it."""
        with self.lock:
            commit = self.settled()
            if commit is not None and self.last is not None and commit.seen != self.last.seen:
                self.repeat()

    @property
    def table(self) -> str:
        return self.tables.tail

    @property
    def word(self) -> TailCommit | None:
        return self.last

    def repeat(self) -> None:
        if (commit := self.settled()) is not None:
            self.say(self.nothing().write.format("delta").mode("append"), commit)

    def settled(self) -> TailCommit | None:
        """The newest commit with what was seen since, to be said again with a fold; None while it is in doubt."""
        if self.last is None or not may_speak(self.in_doubt):
            return None
        return replace(self.last, seen=self.seen, fold=True)

    def _is_committed(self, query: str, batch: int, position: Position) -> bool:
        there = Batch(self.last.query, self.last.batch, self.last.position) if self.last else None
        return self.is_there(there, Batch(query, batch, position), "tail", f"view {self.view.name!r}")

    def _arrived(self, position: Position) -> int | None:
        """How many rows of the log this batch reads; None when it is not worth finding out."""
        start = self.last.position if self.last else None
        if start is None or not (start.is_between_commits and position.is_between_commits):
            return None
        if position.version - start.version > FEW:
            return None
        found = [self._log_commit(version) for version in range(start.version, position.version)]
        commits = [commit for commit in found if commit is not None]
        return rows_in(commits) if len(commits) == len(found) else None

    def _epoch_before(self, version: int) -> datetime | None:
        """The newest epoch of the log before a version, looking past the commits of others."""
        while version > 0:
            version -= 1
            found = self._log_commit(version)
            if found is None:
                break
            if (commit := Commit.from_json(found.metadata)) is not None:
                return commit.epoch
        return self.last.epoch if self.last else None

    def _mark_before(self, position: Position) -> str:
        """Which commit of the log was read last, to know it again."""
        if not position.is_between_commits or position.version == 0:
            return ""
        found = self._log_commit(position.version - 1)
        return found.mark if found is not None else ""

    def _log_commit(self, version: int) -> Transaction | None:
        if self._read is None or self._read.version != version:
            self._read = transaction(self.log.table, version)
        return self._read

    def _states(
        self, rows: DataFrame | None, lookups: LookupTables, arrived: int | None
    ) -> tuple[DataFrame, tuple[Observation, ...]]:
        """The batch as rows of the tail. A heartbeat of the log is a batch without any."""
        if rows is None or arrived == 0:
            return self.nothing(), ()
        if arrived is not None and arrived <= SMALL:
            rows = rows.coalesce(1)
        events = view_events(self.view, rows, lookups.table_of) if used_lookups(self.view) else rows
        if self._prepare is None:
            self._prepare = preparation(self.view, events.schema, extra=("_epoch",))
            self._observed = observed(self.view, self.replay_cut)
        in_events, in_states = Observation(), Observation()
        prepared = self._prepare(events.observe(in_events, *self._observed[0]))
        states = prepared.selectExpr(*self._tail_columns())
        return states.observe(in_states, *self._observed[1]), (in_events, in_states)

    def _tail_columns(self) -> list[str]:
        """The tail's columns as SQL over prepared states; late events are counted.

        Late are events that came after their window was final; history that is replayed is not judged.
        """
        border = late_before(self.view, watermark(self.view, self.seen))
        is_late = f"{bounds(self.view)[-1]} < {timestamp(border)}" if border is not None else "false"
        if self.replay_cut is not None:
            is_late += f" and _epoch > {timestamp(self.replay_cut)}"
        computed = {"epoch": "_epoch", LATE: f"if({is_late}, {EVENTS.state_name}, 0L)"}
        return [
            f"{computed[name]} as {name}" if name in computed else quote(name)
            for name in tail_columns(self.view)
        ]

    def _write(self, states: DataFrame, commit: TailCommit) -> None:
        self.last = self.save(states.write.format("delta").mode("append"), commit)
        self.batches += 1
        logger.debug("batch committed", view=self.view.name, batch=commit.batch, epoch=commit.epoch)

    def nothing(self) -> DataFrame:
        if self._schema is None:
            self._schema = self.spark.read.format("delta").load(self.tables.tail).schema
        return no_rows(self.spark, self._schema)

    _schema: Any = None
    _read: Transaction | None = None
    _prepare: Callable[[DataFrame], DataFrame] | None = None
    _observed: tuple[list[Column], list[Column]] = field(default_factory=lambda: ([], []))


def position_of(plan: Plan) -> Position:
    end = plan.ends[0]
    return Position(end["reservoirVersion"], end["index"], end["isStartingVersion"])
