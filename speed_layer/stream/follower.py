"""Follows a log at its end: each commit of ingest becomes a commit of the tail, as soon as it is there.

A streaming query asks Delta for the newest version, plans what to read, and keeps two records of it, at every
micro-batch. At the end of the log there is nothing to plan: the next commit is a file whose name is known, it says
which files it brought, and the tail's own commit says that they were read.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from braid.errors import BraidError
from braid.tables.commits import Position
from braid.tables.delta_log import Transaction, newest_version, transaction, transactions
from braid.tables.tail_and_base import refuse_other_log
from speed_layer.stream.tail import TailWriter

# How often a log is looked at that has no new commit: a local file costs nothing to look for, another one a request.
LOCAL_LOOK, REMOTE_LOOK = 0.02, 0.5
# What is read in one go by a stream that has fallen behind: enough to keep the cores busy.
MOST_COMMITS, MOST_BYTES = 100, 256 * 2**20
# Seconds until a round that does not end is cut off when its stream is stopped.
STOP_PATIENCE = 60.0
# How often a commit that does not come is suspected to be gone.
SUSPECT_EVERY = 10.0


@dataclass
class LogFollower:
    """A thread that reads the log's commits into a tail, from where the tail ends; `once` only those that are there."""

    name: str
    writer: TailWriter
    pause: timedelta = timedelta(0)
    once: bool = False
    failure: Exception | None = None
    rows: int = 0
    # Of the newest commit that had rows.
    batch_ms: int | None = None
    batch_rows: int = 0
    clock: Callable[[], float] = time.monotonic
    _thread: threading.Thread | None = None
    _suspected: float = field(default=0.0, init=False)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    @property
    def is_active(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def join(self) -> None:
        """Until it has ended; whoever waits runs it once."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Between two rounds; one that does not come to its end is cut off, and looked up at the next start."""
        self.writer.stopping.set()
        if self._thread is None:
            return
        self._thread.join(STOP_PATIENCE)
        if self._thread.is_alive():
            self.writer.spark.sparkContext.cancelJobGroup(self.name)
            self._thread.join(STOP_PATIENCE)
        if self._thread.is_alive():
            raise BraidError(
                f"{self.name} does not stop: Spark has not answered for {2 * STOP_PATIENCE:g} s. End this process."
            )

    def _run(self) -> None:
        stopping = self.writer.stopping
        context = self.writer.spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", self.name)
        context.setJobGroup(self.name, self.name)
        look = REMOTE_LOOK if "://" in self.writer.log.table else LOCAL_LOOK
        try:
            while not stopping.is_set():
                began = self.clock()
                if self._round():
                    stopping.wait(max(0.0, self.pause.total_seconds() - (self.clock() - began)))
                elif self.once:
                    return
                else:
                    stopping.wait(look)
        except Exception as failure:
            self.failure = failure

    def _round(self) -> bool:
        """Whether there was anything to read."""
        began = self.clock()
        with self.writer.lock:
            commits = self._next_commits()
            if not commits:
                return False
            rows = self.writer.follow(commits) or 0
        self.rows += rows
        if rows:
            self.batch_rows, self.batch_ms = rows, round((self.clock() - began) * 1000)
        return True

    def _next_commits(self) -> list[Transaction]:
        assert self.writer.last is not None
        version, size = self.writer.last.position.version, 0
        found: list[Transaction] = []
        while len(found) < MOST_COMMITS and size < MOST_BYTES:
            commit = transaction(self.writer.log.table, version + len(found))
            if commit is None:
                break
            self._refuse_loss(commit)
            found.append(commit)
            size += sum(file.size for file in commit.new)
        if not found:
            self._refuse_gap(version)
        elif not self._is_next(version):
            refuse_other_log(self.writer.log.table, self.writer.tables, self.writer.last)
        return found

    def _is_next(self, version: int) -> bool:
        """Whether the commit before these is the one that was read last: another log has others under its numbers."""
        assert self.writer.last is not None
        before = transaction(self.writer.log.table, version - 1) if self.writer.last.read else None
        return before is not None and before.mark == self.writer.last.read

    def _refuse_loss(self, commit: Transaction) -> None:
        if commit.takes_rows:
            raise BraidError(
                f"commit {commit.version} of the log {self.writer.log.table} takes rows away, and nobody may: the "
                f"numbers of view {self.writer.view.name!r} still have them. `braid kappa replay "
                f"{self.writer.view.name}` builds the view anew from what is left."
            )

    def _refuse_gap(self, version: int) -> None:
        """A commit that is still to come and one whose retention is over look alike; later commits tell them apart."""
        if self.clock() - self._suspected < SUSPECT_EVERY:
            return
        self._suspected = self.clock()
        refuse_other_log(self.writer.log.table, self.writer.tables, self.writer.last)
        table = self.writer.log.table
        newest = newest_version(table)
        # Looked at once more: it may have come between the two looks.
        if newest is not None and newest >= version and transaction(table, version) is None:
            raise BraidError(
                f"the stream of view {self.writer.view.name!r} stopped too long ago: commit {version} of the log "
                f"{table} is gone, and later ones are there (up to {newest}). `braid kappa replay "
                f"{self.writer.view.name}` builds the view anew from the log, which has every event."
            )


@dataclass
class Lag:
    """How far a stream is behind its log: follows the commits that it has not consumed yet."""

    table: str
    next_version: int | None = None
    waiting: deque[Transaction] = field(default_factory=deque)

    def beyond(self, position: Position, now: datetime | None = None) -> tuple[int, float] | None:
        """(events, seconds since the oldest of them was committed); None while history is read: nobody counted it."""
        if position.starting:
            return None
        if self.next_version is None:
            self.next_version = position.version
        for commit in transactions(self.table, self.next_version):
            self.waiting.append(commit)
            self.next_version = commit.version + 1
        while self.waiting and self.waiting[0].version < position.version:
            self.waiting.popleft()
        behind = [commit for commit in self.waiting if commit.rows != 0]
        if not behind:
            return 0, 0.0
        waited = ((now or datetime.now(UTC)) - behind[0].committed).total_seconds()
        return sum(commit.rows or 0 for commit in behind), max(0.0, waited)
