"""Streams what a log holds, and dies at one named point: `python -m tests.faults.die_at POINT`.

The product has no hooks for this: its own methods are wrapped here. What died is Python and its JVM at one moment.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from braid.runtime import documents
from braid.runtime import logging as logs
from braid.runtime.settings import load_settings
from braid.runtime.spark import spark_session
from speed_layer.jobs.engine import stream
from speed_layer.stream import follower as live
from speed_layer.stream import job as streams
from speed_layer.stream.fold import Folding
from speed_layer.stream.tail import TailWriter
from tests.streams import NOON

# Deep enough into the run that there are batches before it, and others of the same commit behind it.
BATCH = 3
DAY = timedelta(days=1)


Die = Callable[[], None]


def before_the_commit(die: Die) -> None:
    def fall(writer: Any, *_: Any) -> None:
        if writer.batches == BATCH:
            die()

    _around(TailWriter, "_write", before=fall)


def after_the_commit(die: Die) -> None:
    def fall(writer: Any, *_: Any) -> None:
        if writer.batches == BATCH:
            die()

    _around(TailWriter, "_write", after=fall)


def between_the_file_and_the_commit(die: Die) -> None:
    """The states are on the disk, and the commit that names them is not; several batches of several views before it."""
    commits: list[str] = []

    def fall(uri: str, text: str) -> None:
        commits.append(uri)
        if '"add"' in text and len(commits) > BATCH:
            die()

    _before_each_commit_of_ours(fall)


def in_a_fold_of_the_tail(die: Die) -> None:
    """The folded states are on the disk, and the commit that puts them in the place of others is not."""

    def fall(uri: str, text: str) -> None:
        if '"remove"' in text:
            die()

    _before_each_commit_of_ours(fall)


def in_a_fold_into_the_base(die: Die) -> None:
    def watch(folding: Any, cut: Any) -> None:
        once_files_are_written(Path(folding.writer.tables.base), die)

    _around(Folding, "_advance", before=watch)


def between_base_and_tail(die: Die) -> None:
    def fall(folding: Any, *_: Any) -> None:
        # Only its own fold advances a kappa view's base: what is to be collected was advanced just now.
        if folding.writer.view.mode == "kappa":
            die()

    _around(Folding, "_forget", before=fall)


POINTS: dict[str, Callable[[Die], None]] = {
    point.__name__: point
    for point in (
        before_the_commit,
        after_the_commit,
        between_the_file_and_the_commit,
        in_a_fold_of_the_tail,
        in_a_fold_into_the_base,
        between_base_and_tail,
    )
}


def _before_each_commit_of_ours(fall: Callable[[str, str], None]) -> None:
    create = documents.create

    def wrapped(uri: str, text: str) -> bool:
        fall(uri, text)
        return create(uri, text)

    documents.create = wrapped


def _around(
    owner: type,
    name: str,
    before: Callable[..., object] = lambda *_: None,
    after: Callable[..., object] = lambda *_: None,
) -> None:
    original = getattr(owner, name)

    def wrapped(*arguments: Any) -> Any:
        before(*arguments)
        result = original(*arguments)
        after(*arguments)
        return result

    setattr(owner, name, wrapped)


def once_files_are_written(table: Path, die: Die) -> None:
    """A thread looks at the table's folder while Spark writes: new files, and no commit that names them yet."""
    files, commits = _files(table), _commits(table)

    def look() -> None:
        while _commits(table) == commits:
            if _files(table) - files:
                die()

    threading.Thread(target=look, daemon=True).start()


def _files(table: Path) -> set[Path]:
    return set(table.glob("*/*.parquet"))


def _commits(table: Path) -> set[Path]:
    return set((table / "_delta_log").glob("*.json"))


def main(point: str) -> None:
    # A file a batch, or a commit: batches of history end in the middle of one, and an epoch has several files.
    streams.MOST_BYTES = "1b"
    live.MOST_COMMITS = 1
    logs.configure("debug", "text")
    settings = load_settings()
    spark = spark_session(settings, "braid that dies")
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]

    def die() -> None:
        # The JVM first: it would go on with what it was told for half a second.
        for process in (jvm, os.getpid()):
            os.kill(process, signal.SIGKILL)

    POINTS[point](die)
    stream(spark, (), settings, once=True, clock=lambda: NOON + DAY)


if __name__ == "__main__":
    main(sys.argv[1])
