"""Which versions of its lookups a view's events were joined to, as each commit of its tail and each publish says."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from braid.log.table import Log
from braid.runtime.frames import timestamp
from braid.tables.commits import TailCommit
from braid.tables.delta_rs import Pinned
from braid.tables.view_tables import pinned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


STRETCH = "_stretch"


@dataclass(frozen=True)
class Stretch:
    """Batches of a stream that joined their events to the same versions.

    They end within the epoch `upto`, before the version `before` of the log; the newest has no end.
    """

    versions: Mapping[str, str]
    upto: datetime | None = None
    before: int | None = None


def tail_commits(tail: Pinned) -> Iterator[TailCommit]:
    """The batches that a tail still knows of, newest first; folds rewrite rows and join nothing."""
    for version in range(tail.version, -1, -1):
        found = tail.logged(version)
        if found is None:
            return
        if found.mark is not None and not found.mark.fold:
            yield found.mark


def stretches(commits: Iterable[TailCommit]) -> list[Stretch]:
    """Oldest first."""
    found: list[Stretch] = []
    for commit in sorted(commits, key=lambda commit: commit.batch):
        # History that is being read is of any epoch up to the replay's cut.
        before = commit.position.version if commit.position.is_between_commits else None
        stretch = Stretch(commit.lookups, commit.epoch or commit.replay_cut, before)
        if found and found[-1].versions == commit.lookups:
            found.pop()
        found.append(stretch)
    return [*found[:-1], Stretch(found[-1].versions)] if found else []


def numbered(spark: "SparkSession", log: Log, rows: "DataFrame", known: Sequence[Stretch]) -> "DataFrame":
    """Rows of a log with the number of the stretch in which a stream read them."""
    from pyspark.sql import functions as F

    number, marked = F.lit(0), rows
    for index, stretch in enumerate(known[:-1]):
        if stretch.upto is None:
            continue
        is_later = F.expr(f"_epoch > {timestamp(stretch.upto)}")
        if stretch.before is not None:
            # Of the epoch in which the versions changed, what the log held then was read before.
            there = pinned(spark, log.table, stretch.before - 1).where(f"_epoch = {timestamp(stretch.upto)}")
            flag = f"_read_before_{index}"
            places = there.select("_partition", "_offset", F.lit(True).alias(flag))
            marked = marked.join(places, on=["_partition", "_offset"], how="left")
            is_later |= F.expr(f"_epoch = {timestamp(stretch.upto)}") & F.col(flag).isNull()
        number = number + is_later.cast("int")
    return marked.select(*rows.columns, number.alias(STRETCH))
