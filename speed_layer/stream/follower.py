"""Follows a log at its end: each commit of ingest becomes a commit of every tail, as soon as it is there.

A streaming query asks Delta for the newest version, plans what to read, and keeps two records of it, at every
micro-batch. At the end of the log there is nothing to plan: the next commit is a file whose name is known, it says
which files it brought, and the tail's own commit says that they were read. Views that have read equally far go on
together: one reads the commit for all, and each has its own position and its own failure.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from braid.errors import BraidError
from braid.log.table import Log
from braid.tables.delta_log import Transaction, transaction
from braid.tables.tail_and_base import refuse_other_log
from braid.writing import reads_next
from speed_layer.stream.live import LiveReader
from speed_layer.stream.log_commits import refuse_gap, refuse_loss
from speed_layer.stream.states import LiveBatch
from speed_layer.stream.tail import TailWriter

# How often a log is looked at that has no new commit: a local file costs nothing to look for, another one a request.
LOCAL_LOOK, REMOTE_LOOK = 0.02, 0.5
# What is read in one go by a stream that has fallen behind: enough to keep the cores busy.
MOST_COMMITS, MOST_BYTES = 100, 256 * 2**20
# Seconds until a round that does not end is cut off when its stream is stopped.
STOP_PATIENCE = 60.0
# How often a commit that does not come is suspected to be gone.
SUSPECT_EVERY = 10.0

Read = Callable[[Sequence[TailWriter], Sequence[Transaction]], list[LiveBatch | Exception]]


@dataclass(eq=False)
class Companion:
    """One stream among those that follow a log: how far it is, and what ended it."""

    writer: TailWriter
    failure: Exception | None = None
    rows: int = 0
    # Of the newest commit that had rows.
    batch_ms: int | None = None
    batch_rows: int = 0
    # Whether there was nothing more to read when it was last looked.
    is_at_end: bool = False
    reader: "LogFollower | None" = None
    leaves: bool = False
    _out: threading.Event = field(default_factory=threading.Event)

    @property
    def is_active(self) -> bool:
        return not self._out.is_set()

    @property
    def version(self) -> int:
        """The commit of the log that it reads next."""
        assert self.writer.last is not None
        return self.writer.last.position.version

    def join(self) -> None:
        """Until it has ended; whoever waits runs it once."""
        self._out.wait()

    def follow(self, reader: "LogFollower") -> None:
        self.reader, self.leaves, self.is_at_end = reader, False, False
        self._out.clear()
        reader.admit(self)

    def end(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self._out.set()

    def stop(self) -> None:
        """Between two rounds; one that does not come to its end is cut off, and looked up at the next start."""
        self.writer.stopping.set()
        self.leave()

    def leave(self) -> None:
        """Goes on with nobody, from where it stands between two rounds."""
        if self.reader is None:
            return
        self.leaves = True
        self.reader.wake.set()
        if self._out.wait(STOP_PATIENCE):
            return
        self.writer.spark.sparkContext.cancelJobGroup(self.reader.name)
        if not self._out.wait(STOP_PATIENCE):
            raise BraidError(
                f"{self.reader.name} does not stop: Spark has not answered for {2 * STOP_PATIENCE:g} s. End this "
                "process."
            )

    def took(self, rows: int, seconds: float) -> None:
        self.rows += rows
        if rows:
            self.batch_rows, self.batch_ms = rows, round(seconds * 1000)


@dataclass
class LogFollower:
    """A thread that reads a log's commits into tails, from where each ends; `once` only those that are there."""

    name: str
    log: Log
    pause: timedelta = timedelta(0)
    once: bool = False
    clock: Callable[[], float] = time.monotonic
    read: Read = field(default_factory=LiveReader)
    wake: threading.Event = field(default_factory=threading.Event)
    _all: list[Companion] = field(default_factory=list)
    _gate: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    _suspected: float = field(default=0.0, init=False)

    def admit(self, one: Companion) -> None:
        """A thread runs for as long as there is somebody to read for."""
        with self._gate:
            self._all.append(one)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        context = self._all[0].writer.spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", self.name)
        context.setJobGroup(self.name, self.name)
        look = REMOTE_LOOK if "://" in self.log.table else LOCAL_LOOK
        while following := self._present():
            began = self.clock()
            try:
                has_read = self._round(following)
            except Exception as failure:
                self._dismiss(following, failure)
                continue
            if has_read:
                self.wake.wait(max(0.0, self.pause.total_seconds() - (self.clock() - began)))
            elif self.once:
                self._dismiss(following)
            else:
                self.wake.wait(look)

    def _present(self) -> list[Companion]:
        """Who is to be read for next; without anybody the thread ends."""
        with self._gate:
            self.wake.clear()
            for one in [one for one in self._all if one.leaves]:
                self._all.remove(one)
                one.end()
            if not self._all:
                self._thread = None
            return list(self._all)

    def _dismiss(self, following: Sequence[Companion], failure: Exception | None = None) -> None:
        with self._gate:
            for one in following:
                if one in self._all:
                    self._all.remove(one)
                    one.end(failure)

    def _round(self, following: Sequence[Companion]) -> bool:
        """Whether there was anything to read, for those who are furthest behind."""
        began = self.clock()
        version, until = reads_next(one.version for one in following)
        together = [one for one in following if one.version == version]
        commits = self._commits(version, until)
        if not commits and not self._is_suspicious():
            for one in together:
                one.is_at_end = True
            return False
        passed: set[tuple[str, str]] = set()
        ready = [one for one in together if self._may_read(one, version, commits, passed)]
        if not commits or not ready:
            return bool(commits)
        # A log that moves is not suspected: whether it is the same one is seen by its commits.
        self._suspected = began
        rows = sum(commit.rows or 0 for commit in commits)
        for one, read in zip(ready, self.read([one.writer for one in ready], commits), strict=True):
            try:
                if isinstance(read, Exception):
                    raise read
                one.writer.take(commits, read)
            except Exception as failure:
                # Who fails leaves, and the others go on.
                self._dismiss([one], failure)
            else:
                one.took(rows, self.clock() - began)
        return True

    def _may_read(
        self, one: Companion, version: int, commits: Sequence[Transaction], passed: set[tuple[str, str]]
    ) -> bool:
        """Looked at once for all who have read the same of the same log."""
        last = one.writer.last
        assert last is not None
        if (last.log, last.read) in passed:
            return True
        try:
            self._refuse(one.writer, version, commits)
            passed.add((last.log, last.read))
        except Exception as failure:
            self._dismiss([one], failure)
            return False
        return True

    def _commits(self, version: int, until: int | None) -> list[Transaction]:
        """The next commits; not beyond where others stand, who then go on with these."""
        found: list[Transaction] = []
        size, most = 0, MOST_COMMITS if until is None else min(MOST_COMMITS, until - version)
        while len(found) < most and size < MOST_BYTES:
            commit = transaction(self.log.table, version + len(found))
            if commit is None:
                break
            found.append(commit)
            size += sum(file.size for file in commit.new)
        return found

    def _is_suspicious(self) -> bool:
        """A commit that is still to come and one whose retention is over look alike: now and then it is asked which."""
        if not self.once and self.clock() - self._suspected < SUSPECT_EVERY:
            return False
        self._suspected = self.clock()
        return True

    def _refuse(self, writer: TailWriter, version: int, commits: Sequence[Transaction]) -> None:
        """Refuses what a view must not read; another log has other commits under the numbers of this one."""
        assert writer.last is not None
        for commit in commits:
            refuse_loss(self.log.table, writer.view.name, commit)
        if not commits:
            refuse_other_log(writer.log.table, writer.tables, writer.last)
            refuse_gap(self.log.table, writer.view.name, version)
            return
        before = transaction(self.log.table, version - 1) if writer.last.read else None
        if before is None or before.mark != writer.last.read:
            refuse_other_log(writer.log.table, writer.tables, writer.last)
