"""The tables of a view through Spark: created once, read at one version, and up to which cut their days go."""

from datetime import date, datetime

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, TimestampType

from braid.check.definitions import compiled_states
from braid.define.fingerprint import state_fingerprint
from braid.define.view import View
from braid.runtime.object_store import hadoop_address
from braid.states.calendar import instant_of
from braid.tables.delta_log import newest_version
from braid.tables.tail_and_base import refuse_second_tail
from braid.tables.view_tables import (
    FINGERPRINT,
    LATE,
    LOG,
    PROPERTIES,
    REPLAY_CUT,
    ViewTables,
    base_columns,
    tail_columns,
)


def create(
    spark: SparkSession, tables: ViewTables, view: View, replay_cut: datetime | None, log: str | None
) -> None:
    """Creates what is not there yet, for a log with this id.

    The replay's cut is fixed with the tail, before a query has read anything.
    """
    # A base with days had a tail: whatever is begun in its place, maybe from another log, is not that one.
    refuse_second_tail(tables, replay_cut if newest_version(tables.tail) is not None else None)
    types = _types(spark, view)
    properties = PROPERTIES | {FINGERPRINT: state_fingerprint(view)}
    if replay_cut is not None:
        properties[REPLAY_CUT] = replay_cut.isoformat()
    if log is not None:
        properties[LOG] = log
    for location, columns, by in (
        (tables.base, base_columns(view), "day"),
        # Last: where there is a tail, everything is there.
        (tables.tail, tail_columns(view), "epoch"),
    ):
        if DeltaTable.isDeltaTable(spark, location):
            continue
        table = DeltaTable.create(spark).location(hadoop_address(location)).partitionedBy(by)
        for name in columns:
            table = table.addColumn(name, types[name])
        for key, value in properties.items():
            table = table.property(key, value)
        table.execute()


def pinned(spark: SparkSession, location: str, version: int | None = None) -> DataFrame:
    """The table as it is now, however long the answer takes and whoever writes meanwhile."""
    version = newest_version(location) if version is None else version
    return spark.read.format("delta").option("versionAsOf", version).load(location)


def throughs(base: DataFrame) -> dict[date, datetime]:
    """Day -> the last epoch that it covers."""
    rows = base.groupBy("day").agg(F.unix_micros(F.max("through")).alias("through")).collect()
    return {row.day: instant_of(row.through) for row in rows}


def _types(spark: SparkSession, view: View) -> dict[str, DataType]:
    """Spark itself says which types the states of this view have."""
    states = {column.name: column.dataType for column in compiled_states(spark, view).schema}
    return states | {"epoch": TimestampType(), "through": TimestampType(), LATE: LongType()}
