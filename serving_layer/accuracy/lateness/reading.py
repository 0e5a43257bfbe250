"""Reads a log for the questions that are not about groups: when events came and were served, and what was rejected."""

import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.errors import BraidError
from braid.log.contents import read
from braid.log.lookups import LookupTables
from braid.log.table import Log
from braid.runtime.spark import timestamp
from braid.tables.commits import Commit, TailCommit, newest_commit
from braid.tables.delta_log import infos_back
from braid.tables.delta_rs import Pinned, open_table, pin
from serving_layer.accuracy.explain.comparable_days import ComparedDays
from serving_layer.accuracy.explain.copies import placed_events
from serving_layer.accuracy.lateness.event_times import Brought, narrow_columns, needs_spark
from serving_layer.accuracy.report.values import LogCounts

# A commit a second for half a day; what is older is known by its epoch.
MOST_COMMITS = 40_000


def pinned_log(log: Log) -> Pinned:
    table = open_table(log.table)
    if table is None:
        raise BraidError(
            f"the log of source {log.source.name!r} is empty: run `braid ingest {log.source.name}` first."
        )
    return pin(table)


@contextmanager
def narrow_rows(spark: SparkSession, known: ComparedDays, log: Log, arrival: str | None) -> Iterator[Any]:
    """The log itself; or where only Spark can filter, the events that are left, in a file."""
    import pyarrow.dataset as ds

    view = known.version.view
    if not needs_spark(view):
        yield pinned_log(log).dataset
        return
    with tempfile.TemporaryDirectory(prefix="braid-events-") as folder:
        # The driver reads them again: with a cluster, it needs a folder that its executors share.
        place = str(Path(folder) / "events")
        _events_with_places(spark, known, log, arrival).write.parquet(place)
        yield ds.dataset(place, format="parquet")


def _events_with_places(spark: SparkSession, known: ComparedDays, log: Log, arrival: str | None) -> DataFrame:

    view = known.version.view
    # Days after the last one are read too: what happens there moves the watermark.
    rows = read(spark, log).where(f"_error is null and day >= date'{known.span.first}'")
    extra = [name for name in (view.source.event_id, arrival) if name and name not in view.keys]
    events = placed_events(view, rows, LookupTables(spark, log.settings, known.newest_cut).table_of, *extra)
    wanted = narrow_columns(view, arrival)
    packed = {"_partition", "_offset", "_arrival", "_epoch", *extra}
    return events.select(
        *(
            F.lit(None).cast("string").alias(name)
            if name == "_error"
            else F.col(f"_place.`{name}`").alias(name)
            if name in packed
            else F.col(f"`{name}`")
            for name in wanted
        )
    )


def log_counts(spark: SparkSession, log: Log, known: ComparedDays) -> LogCounts:
    """Of the whole log up to the cut: a rejected record has no day of its own."""
    upto = read(spark, log).where(f"_epoch <= {timestamp(known.newest_cut)}")
    reasons: Mapping[str | None, int] = {
        row.reason: row["count"]
        for row in upto.groupBy(F.substring_index("_error", ":", 1).alias("reason")).count().collect()
    }
    newest = newest_commit(log.table)
    rejected = {reason: number for reason, number in sorted(reasons.items(), key=str) if reason is not None}
    accepted = reasons.get(None, 0)
    distinct = accepted
    if log.source.event_id is not None:
        identity = F.col(f"`{log.source.event_id}`")
        per_id = upto.where("_error is null").agg(
            F.count_if(identity.isNull()).alias("without"), F.count_distinct("day", identity).alias("ids")
        ).first()  # fmt: skip
        assert per_id is not None
        distinct = per_id.without + per_id.ids
    return LogCounts(
        accepted, sum(rejected.values()), rejected, newest.duplicates if newest else 0, accepted - distinct
    )


def served_when(log: Pinned, tail: Pinned | None) -> list[Brought]:
    """For logs that are read from Kafka. Nothing for files, which have no offsets that grow."""
    if tail is None:
        return []
    read = sorted(
        (mark.position.version, micros)
        for metadata, micros, _ in _commits(tail)
        if (mark := TailCommit.from_json(metadata)) is not None and not mark.fold and not mark.replaying
    )
    positions = [position for position, _ in read]
    found = []
    for metadata, _, version in _commits(log):
        commit = Commit.from_json(metadata)
        # A position is the version that is read next: the commit was read by the first that is beyond it.
        first = bisect_right(positions, version)
        if commit is not None and not commit.beat and first < len(read):
            found += [Brought(int(partition), end, read[first][1]) for partition, end in commit.end.items()]
    return found


def _commits(table: Pinned) -> Iterator[tuple[str | None, int, int]]:
    """(what the writer said, when in microseconds, version), newest first, as far as they are kept."""
    for version, info in islice(infos_back(table.text, table.version), MOST_COMMITS):
        yield info.get("userMetadata"), int(info.get("timestamp", 0)) * 1_000, version
