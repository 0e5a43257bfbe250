"""What every writer of micro-batches shares: its lock, how it stops, how a refusal reaches a person."""

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from braid.errors import BraidError
from braid.runtime.settings import Settings
from braid.tables.appending import Appending
from braid.tables.commits import WRITERS, Commit, TailCommit, described, keep, keep_no_more, turns
from braid.tables.conditional import CONFLICT
from braid.tables.delta_log import Transaction, newest_version
from braid.writing import Batch, decide, may_follow, may_speak, next_turn, was_made
from speed_layer.jobs.checkpoint import Checkpoint, Plan

Said = TypeVar("Said", Commit, TailCommit)


class Stopping(Exception):
    """Ends a micro-batch that had not begun to write, because its query is being stopped."""


@dataclass(kw_only=True)
class MicroBatches(ABC):
    """Who is given the micro-batches of one query. The lock keeps them apart from whatever else is done between."""

    spark: SparkSession
    checkpoint: Checkpoint
    batches: int = 0
    failure: Exception | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    stopping: threading.Event = field(default_factory=threading.Event)

    def append(self, rows: DataFrame, batch: int) -> None:
        """One micro-batch, for `foreachBatch`."""
        # Whoever stops the query holds the lock and waits for this thread: it must not wait in turn.
        while not self.lock.acquire(timeout=0.05):
            if self.stopping.is_set():
                raise Stopping
        try:
            query = str(self.spark.sparkContext.getLocalProperty("sql.streaming.queryId"))
            self.write_batch(rows, query, batch, self.checkpoint.plan(batch))
        except Exception as failure:
            # Spark passes an error on as a text of its own: whoever explains the failure needs the error itself.
            self.failure = failure
            raise
        finally:
            self.lock.release()

    @abstractmethod
    def write_batch(self, rows: DataFrame, query: str, batch: int, plan: Plan) -> None:
        """Writes a batch that is not there yet, and only then; the lock is held."""


@dataclass(kw_only=True)
class BatchWriter(MicroBatches):
    """The only writer of one table."""

    in_doubt: bool = False
    # How many commits to the table were counted so far, and whether each has to be: where no lock keeps others out.
    turn: int = 0
    is_fenced: bool = False
    # The checkpoint that this one takes over from, after that was lost.
    replaces: str | None = None

    def is_there(self, last: Batch | None, mine: Batch, table: str, owner: str) -> bool:
        """Whether a batch is in the log or the tail already; one that cannot be told from others is refused."""
        decision = decide(last, mine, self.replaces)
        if last is not None and decision == "stranger":
            raise BraidError(
                f"the {table} of {owner} was written by another checkpoint (query {last.query}): its batches cannot be "
                f"told from new ones. {self.checkpoint.mend}"
            )
        if last is not None and decision == "older":
            raise BraidError(
                f"the checkpoint of {owner} is older than its {table} (batch {mine.number} against {last.number}): "
                f"what it has read would be counted twice. {self.checkpoint.mend}"
            )
        return decision == "skip"

    @property
    @abstractmethod
    def table(self) -> str:
        """The table that it writes."""

    @property
    @abstractmethod
    def word(self) -> Commit | TailCommit | None:
        """Its newest commit."""

    @abstractmethod
    def repeat(self) -> None:
        """Says the newest commit once more, without rows."""

    def wake(self) -> None:
        """Before the first batch of a start: what was kept while nobody wrote is in a commit again, and kept no more.

        What is kept is therefore never older than a commit, whenever the process dies.
        """
        with self.lock:
            if self.word is not None and next(described(self.table, type(self.word).from_json), None) is None:
                self.repeat()
            keep_no_more(self.table)

    def rest(self) -> None:
        """Keeps what was said last where no clean-up of commits finds it: nobody writes until the next start."""
        with self.lock:
            if self.word is not None and may_speak(self.in_doubt):
                keep(self.table, self.word, self.turn)

    def take_turn(self, settings: Settings) -> None:
        """Before the table is looked at: whoever commits after this, without being seen, is noticed."""
        self.turn, self.is_fenced = turns(self.table), settings.is_fenced

    def save(self, writer: Any, commit: Said) -> Said:
        """Commits rows with what is said of them, and gives back what was said.

        A commit that fails may have been made all the same: nothing more may be said until it was looked up. A commit
        after it would repeat the batch before it as the newest, and the next start would append it twice.
        """
        self.in_doubt = True
        if self.is_fenced:
            commit = replace(commit, token=uuid.uuid4().hex)
            turn = next_turn(self.turn)
            self._save_alone(writer.option("userMetadata", commit.to_json()), commit, turn)
            self.turn = turn
        else:
            writer.option("userMetadata", commit.to_json()).save(self.table)
        self.in_doubt = False
        return commit

    def save_rows(
        self, table: Appending, rows: pa.Table, commit: Said, replaced: Sequence[Mapping[str, Any]] = ()
    ) -> Said:
        """The same without Spark. A commit of another writer that came first is met before this one is made."""
        self.in_doubt = True
        if not table.is_known:
            # Its number may be free again: what is there now is asked, and whether somebody took a turn meanwhile.
            table.version = newest_version(self.table) or 0
            if not may_follow(self.turn, turns(self.table)):
                raise self._not_alone()
        commit = replace(commit, token=uuid.uuid4().hex) if self.is_fenced else commit
        turn = (WRITERS, self.turn + 1) if self.is_fenced else None
        gone = {file["path"] for file in replaced}
        table.append(rows, commit.to_json(), turn, lambda other: self._meet(other, gone), replaced)
        self.turn += self.is_fenced
        self.in_doubt = False
        return commit

    def _meet(self, other: Transaction, gone: Set[str]) -> None:
        if not gone.isdisjoint(other.gone):
            raise RuntimeError(f"commit {other.version} of {self.table} has replaced what was to be replaced")
        if not may_follow(self.turn, other.turns.get(WRITERS)):
            raise self._not_alone()
        if other.redefines:
            raise RuntimeError(
                f"commit {other.version} has changed what {self.table} is: it is looked at anew"
            )

    def _save_alone(self, writer: Any, commit: Said, turn: int) -> None:
        """Delta skips a commit whose turn is there already, without a word: it is looked for."""
        try:
            writer.option("txnAppId", WRITERS).option("txnVersion", turn).save(self.table)
        except (Py4JJavaError, PySparkException) as error:
            if CONFLICT not in str(error):
                raise
            raise self._not_alone() from None
        newest = next((said for _, said in described(self.table, type(commit).from_json)), None)
        if newest is None or not was_made(commit.token, newest.token):
            raise self._not_alone()

    def _not_alone(self) -> BraidError:
        return BraidError(
            f"another process writes to {self.table} at the same time, and was first: nothing that this one has "
            "written counts, nothing is lost and nothing is twice. Stop one of the two."
        )
