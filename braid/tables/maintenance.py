"""Keeps Delta tables fast while streams read and write them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from braid.define.durations import parse_duration
from braid.define.source import Source
from braid.runtime import documents
from braid.runtime.settings import Settings
from braid.tables.delta_log import newest_version, transaction
from braid.tables.delta_rs import properties

# Who asks when it was done last needs no Spark.
if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Maintained:
    """What a round of maintenance did to one table."""

    table: str
    files_before: int
    files_after: int
    version: int


def maintain(spark: "SparkSession", table: str) -> Maintained:
    """Few large files (OPTIMIZE), and no files that no reader can need any more (VACUUM with the table's retention).

    Both are safe while streams run: OPTIMIZE rewrites without changing data, which streams skip and blind appends do
    not conflict with; VACUUM keeps what the table's retention says; Delta trims the commit log at each checkpoint.
    """
    before = _files(spark, table)
    compact(spark, table)
    return _vacuumed(spark, table, before)


def compact(spark: "SparkSession", table: str) -> Maintained:
    """Few large files; all that a table needs that is younger than its retention."""
    before = _files(spark, table)
    _delta(spark, table).optimize().executeCompaction()
    return _done(spark, table, before)


def vacuum(spark: "SparkSession", table: str) -> Maintained | None:
    """Only removes files, for tables that have another way to stay compact; None when there is no such table."""
    if newest_version(table) is None:
        return None
    return _vacuumed(spark, table, _files(spark, table))


def is_young(table: str) -> bool:
    """Whether a table was created within its retention: no file of it can be removed yet, and looking takes seconds."""
    first = transaction(table, 0)
    if first is None:
        return False
    kept = properties(table).get("delta.deletedFileRetentionDuration", "interval 7 days")
    return datetime.now(UTC) - first.committed < parse_duration(kept.removeprefix("interval "))


def done_within(settings: Settings, time: timedelta, sources: Sequence[Source]) -> datetime | None:
    """When the tables of all these sources were maintained last, if that is not longer ago."""
    text = documents.read(_record(settings))
    known = json.loads(text) if text else {}
    times = [datetime.fromisoformat(known[source.name]) for source in sources if source.name in known]
    if len(times) < len(sources) or not times:
        return None
    return min(times) if datetime.now(UTC) - min(times) < time else None


def remember(settings: Settings, sources: Sequence[Source]) -> None:
    """A backfill of many days need not tidy up after each of them."""
    text = documents.read(_record(settings))
    now = datetime.now(UTC).isoformat()
    known = (json.loads(text) if text else {}) | {source.name: now for source in sources}
    documents.write(_record(settings), json.dumps(known, indent=2))


def _record(settings: Settings) -> str:
    return settings.location("maintenance.json")


def _vacuumed(spark: "SparkSession", table: str, before: int) -> Maintained:
    _delta(spark, table).vacuum()
    return _done(spark, table, before)


def _done(spark: "SparkSession", table: str, before: int) -> Maintained:
    return Maintained(table, before, _files(spark, table), newest_version(table) or 0)


def _files(spark: "SparkSession", table: str) -> int:
    detail = _delta(spark, table).detail().first()
    assert detail is not None
    return int(detail.numFiles)


def _delta(spark: "SparkSession", table: str) -> Any:
    from delta.tables import DeltaTable

    return DeltaTable.forPath(spark, table)
