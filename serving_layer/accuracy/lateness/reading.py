"""Reads a log for questions about time: when events came, when they could be read, and what was rejected."""

import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.define.schema import double_quoted
from braid.log.contents import read_accepted
from braid.log.database import opened
from braid.log.lookups import LookupTables
from braid.log.table import Log, empty
from braid.tables.commits import Commit, TailCommit, newest_commit
from braid.tables.delta_log import infos_back
from braid.tables.delta_rs import Pinned, pin_at
from serving_layer.accuracy.explain.compared_rows import ComparedDays, placed_events
from serving_layer.accuracy.lateness.event_times import Brought, narrow_columns, needs_spark
from serving_layer.accuracy.report.values import LogCounts

# A commit a second for half a day; what is older is known by its epoch.
MOST_COMMITS = 40_000


def pinned_log(log: Log) -> Pinned:
    table = pin_at(log.table)
    if table is None:
        raise empty(log)
    return table


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
    rows = read_accepted(spark, log).where(f"day >= date'{known.span.first}'")
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


def log_counts(log: Log, known: ComparedDays) -> LogCounts:
    """Of the whole log up to the cut: a rejected record has no day of its own."""
    event_id = log.source.event_id
    identity = "NULL" if event_id is None else double_quoted(event_id)
    upto = f"FROM log WHERE _epoch <= TIMESTAMPTZ '{known.newest_cut.isoformat()}'"
    with opened(log) as database:
        reasons = dict(
            database.sql(
                f"SELECT split_part(_error, ':', 1) AS reason, count(*) {upto} GROUP BY 1"
            ).fetchall()
        )
        # Alone: to know the ids apart takes memory, and what does not fit goes to disk.
        ids, without = database.sql(f"""
            SELECT count(*), coalesce(sum(n) FILTER (id IS NULL), 0)::BIGINT - count(*) FILTER (id IS NULL)
            FROM (SELECT day, {identity} AS id, count(*) AS n {upto} AND _error IS NULL GROUP BY ALL)
        """).fetchall()[0]  # fmt: skip
    newest = newest_commit(log.table)
    rejected = {reason: number for reason, number in sorted(reasons.items(), key=str) if reason is not None}
    accepted = reasons.get(None, 0)
    duplicates = newest.duplicates if newest else 0
    return LogCounts(accepted, sum(rejected.values()), rejected, duplicates, accepted - ids - without)


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
