"""Writes micro-batches of a log to a view's tail as partial states, each batch exactly once."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

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
from braid.runtime.frames import no_rows, timestamp
from braid.runtime.logging import Logger
from braid.states import EVENTS
from braid.states.finality import late_before, watermark
from braid.states.spark import preparation
from braid.tables import delta_rs
from braid.tables.commits import (
    Commit,
    Position,
    TailCommit,
    newest_tail_commit,
)
from braid.tables.delta_log import Transaction, newest_version, transaction
from braid.tables.spark_tables import refuse_second_tail, replay_cut
from braid.tables.view_tables import LATE, ViewTables, bounds, tail_columns
from braid.writing import Batch, decide, is_same_table, may_speak
from speed_layer.jobs.batch_writer import BatchWriter
from speed_layer.jobs.checkpoint import Plan

logger = Logger("stream")

# Up to this many rows one task is faster than two and the exchange between them.
SMALL = 20_000
# Seconds until a count that has not come is suspected never to come, and until it is made anew.
FIRST_LOOK, PATIENCE = 0.1, 30.0
# Up to this many commits it is worth adding up their rows.
FEW = 20


@dataclass
class Counts:
    """What a writer has seen since it began; `history` are the events up to the replay's cut."""

    events: int = 0
    history: int = 0
    late: int = 0
    revised: int = 0


@dataclass(kw_only=True)
class TailWriter(BatchWriter):
    """The only writer of one tail. `last` is its newest commit, `seen` the largest event time so far."""

    view: View
    tables: ViewTables
    log: Log
    clock: Callable[[], datetime]
    replay_cut: datetime | None = None
    from_day: date | None = None
    replaces: str | None = None
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
        self.refuse_other_log()

    def refuse_other_log(self) -> None:
        """A log that was restored, or ingested anew, has other commits under the numbers that were read."""
        self.log_id = delta_rs.table_id(self.log.table)
        if self.last is None:
            return
        position, newest = self.last.position, newest_version(self.log.table) or 0
        before = transaction(self.log.table, position.version - 1) if position.is_between_commits else None
        if not is_same_table(self.last.log or None, self.log_id):
            why = f"it is the table {self.log_id}, and not {self.last.log}"
        elif position.version > newest + 1:
            why = f"it ends at commit {newest}, and commit {position.version - 1} was read"
        elif before is not None and self.last.read and before.mark != self.last.read:
            why = f"commit {before.version} is another than the one that was read"
        else:
            return
        raise BraidError(
            f"the log {self.log.table} is not the one that view {self.view.name!r} has read: {why}. Restore the one "
            f"that belongs to it, or build the view anew from this one: `braid kappa replay {self.view.name}`."
        )

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
        position = position_of(plan)
        if not self._is_committed(query, batch, position):
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
            self._append(
                rows, self.last.query, self.last.batch + 1, Position(commits[-1].version + 1), arrived
            )
            return arrived

    def _append(
        self, rows: DataFrame | None, query: str, batch: int, position: Position, arrived: int | None
    ) -> None:
        lookups = LookupTables(self.spark, self.log.settings)
        states, observations = self._states(rows, lookups, arrived)
        epoch = None if position.starting else self._epoch_before(position.version)
        commit = TailCommit(
            query=query,
            batch=batch,
            position=position,
            states=state_fingerprint(self.view),
            epoch=epoch,
            complete=complete_after(epoch, self.log.settings.epoch, position.starting),
            seen=self.seen,
            replay_cut=self.replay_cut,
            replaying=position.starting,
            collected=self.last.collected if self.last else -1,
            lookups=lookups.versions,
            log=self.log_id or "",
            read=self._mark_before(position),
        )
        self._write(states, commit)
        self._count(observations, self.last or commit)

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
        decision = decide(there, Batch(query, batch, position), self.replaces)
        if there is not None and decision == "stranger":
            raise BraidError(
                f"the tail of view {self.view.name!r} was written by another checkpoint (query {there.query}): its "
                f"batches cannot be told from new ones. {self.checkpoint.mend}"
            )
        if there is not None and decision == "older":
            raise BraidError(
                f"the checkpoint of view {self.view.name!r} is older than its tail (batch {batch} against "
                f"{there.number}): it would be counted twice. {self.checkpoint.mend}"
            )
        return decision == "skip"

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
        states = self._prepare(events.observe(in_events, *self._observed[0])).selectExpr(
            *self._tail_columns()
        )
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

    def _count(self, observations: tuple[Observation, ...], commit: TailCommit) -> None:
        if not observations:
            return
        found: list[Any] = [reported(observation, FIRST_LOOK) for observation in observations]
        if any(report is None for report in found):
            brought = self._made_by(commit)
            if brought is not None and not brought.new:
                # Spark leaves out what it knows to be empty, and with it whoever was to count there (SPARK-54620).
                return
            found = [reported(observation, PATIENCE) for observation in observations]
        if any(report is None for report in found):
            found = [self._recounted(commit)] * 2
        in_events, in_states = found
        # By name: to iterate over a Java map costs an exception, and that a twentieth of a second.
        self.counts.events += in_events.get("events")
        self.counts.history += in_events.get("history")
        self.counts.late += in_states.get("late") or 0
        self.counts.revised += in_states.get("revised")
        if (seen := in_events.get("seen")) is not None:
            self.seen = highest(self.seen, seen, self.clock())

    def _made_by(self, commit: TailCommit) -> Transaction | None:
        """The commit in the tail that says this."""
        said, version = commit.to_json(), newest_version(self.tables.tail)
        while version is not None and (found := transaction(self.tables.tail, version)) is not None:
            if found.metadata == said:
                return found
            version = version - 1 if version > 0 else None
        return None

    def _recounted(self, commit: TailCommit) -> dict[str, Any]:
        """What a batch counted, from the rows that it wrote: the beginning of a pane stands for its newest event."""
        made = self._made_by(commit)
        if made is None or not made.new:
            return {"events": 0, "history": 0, "late": 0, "revised": 0}
        files = [f"{self.tables.tail}/{file.path}" for file in made.new]
        reader = self.spark.read.option("basePath", self.tables.tail).option("__globPaths__", "false")
        events, late = F.col(EVENTS.state_name), F.col(LATE)
        is_history = F.col("epoch") <= F.lit(self.replay_cut) if self.replay_cut else F.lit(False)
        row = reader.schema(self.nothing().schema).parquet(*files).agg(
            F.sum(events).alias("events"),
            F.coalesce(F.sum(F.when(is_history, events)), F.lit(0)).alias("history"),
            F.sum(late).alias("late"),
            F.count_if(late > 0).alias("revised"),
            F.unix_micros(F.max(bounds(self.view)[-1])).alias("seen"),
        ).first()  # fmt: skip
        assert row is not None
        return row.asDict()

    def nothing(self) -> DataFrame:
        if self._schema is None:
            self._schema = self.spark.read.format("delta").load(self.tables.tail).schema
        return no_rows(self.spark, self._schema)

    _schema: Any = None
    _read: Transaction | None = None
    _prepare: Callable[[DataFrame], DataFrame] | None = None
    _observed: tuple[list[Column], list[Column]] = field(default_factory=lambda: ([], []))


def observed(view: View, cut: datetime | None) -> tuple[list[Column], list[Column]]:
    """What is counted on the way: of a batch's events, and of its states."""
    seen = F.unix_micros(F.max(quote(view.source.event_time)))
    late, is_history = F.col(LATE), F.expr(f"_epoch <= {timestamp(cut)}") if cut else F.lit(False)
    return (
        [F.count(F.lit(1)).alias("events"), F.count_if(is_history).alias("history"), seen.alias("seen")],
        [F.sum(late).alias("late"), F.count_if(late > 0).alias("revised")],
    )


def reported(observation: Observation, patience: float) -> Any | None:
    """What was counted; None when Spark has not told it in time, which it may never do."""
    told = cast(Any, observation._jo)
    deadline = time.monotonic() + patience
    # Each look waits for a tenth of a second in the JVM.
    while told.getOrEmpty().isEmpty():
        if time.monotonic() >= deadline:
            return None
    return told.getAsJava()


def rows_in(commits: Iterable[Transaction]) -> int | None:
    """How many rows commits brought; None when one of them does not say."""
    rows = [commit.rows for commit in commits if commit.new]
    known = [number for number in rows if number is not None]
    return sum(known) if len(known) == len(rows) else None


def position_of(plan: Plan) -> Position:
    end = plan.ends[0]
    return Position(end["reservoirVersion"], end["index"], end["isStartingVersion"])


def highest(seen: datetime | None, micros: int, now: datetime) -> datetime:
    """The largest event time, but never later than now: one clock that is fast must not make windows final."""
    latest = min(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros), now)
    return latest if seen is None else max(seen, latest)
