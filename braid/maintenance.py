"""Keeps Delta tables fast while streams read and write them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from braid import documents
from braid.settings import Settings
from braid.source import Source

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
    from delta.tables import DeltaTable

    before = _files(spark, table)
    DeltaTable.forPath(spark, table).optimize().executeCompaction()
    return _vacuumed(spark, table, before)


def vacuum(spark: "SparkSession", table: str) -> Maintained | None:
    """Only removes files, for tables that have another way to stay compact; None when there is no such table."""
    from delta.tables import DeltaTable

    if not DeltaTable.isDeltaTable(spark, table):
        return None
    return _vacuumed(spark, table, _files(spark, table))


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
    from delta.tables import DeltaTable

    delta = DeltaTable.forPath(spark, table)
    delta.vacuum()
    newest = delta.history(1).first()
    assert newest is not None
    return Maintained(table, before, _files(spark, table), newest.version)


def _files(spark: "SparkSession", table: str) -> int:
    from delta.tables import DeltaTable

    detail = DeltaTable.forPath(spark, table).detail().first()
    assert detail is not None
    return int(detail.numFiles)
