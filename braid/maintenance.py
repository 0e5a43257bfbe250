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

    delta = DeltaTable.forPath(spark, table)
    before = delta.detail().first()
    delta.optimize().executeCompaction()
    delta.vacuum()
    after = delta.detail().first()
    newest = delta.history(1).first()
    assert before is not None
    assert after is not None
    assert newest is not None
    return Maintained(table, before.numFiles, after.numFiles, newest.version)
