"""Keeps Delta tables fast while streams read and write them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
