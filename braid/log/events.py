"""From the log to the events of a view: first copies, enriched, derived, repeated, filtered, as DataFrames."""

from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from braid.define.fingerprint import used_columns, used_derive, used_lookups
from braid.define.lookup import Lookup
from braid.define.schema import quote
from braid.define.source import Source
from braid.define.view import View
from braid.errors import BraidError

# The order in which copies of an event are told apart.
PLACE = ("_epoch", "_partition", "_offset")
TableOf = Callable[[Lookup], DataFrame]
BaseOf = Callable[[View], DataFrame]
_LOG_COLUMNS = {
    "_partition": "bigint", "_offset": "bigint", "_arrival": "timestamp", "_epoch": "timestamp",
    "_error": "string", "_raw": "binary", "day": "date",
}  # fmt: skip


def first_copies(rows: DataFrame, source: Source) -> DataFrame:
    """Of the rows of a day with one event id, the first that was ingested; rows without an id are all kept.

    A cut that is applied afterwards gives the same: whatever copy is before it, the first one is.
    """
    if source.event_id is None:
        return rows
    event_id = F.col(quote(source.event_id))
    copies = (
        rows.where(event_id.isNotNull())
        .groupBy("day", event_id.alias("_id"))
        .agg(F.count(F.lit(1)).alias("_copies"), F.min(F.struct(*PLACE)).alias("_first"))
        .where("_copies > 1")
        .drop("_copies")
        .withColumnRenamed("day", "_day")
    )
    same = (rows["day"] == copies["_day"]) & (rows[quote(source.event_id)] == copies["_id"])
    joined = rows.join(copies, on=same, how="left")
    first = F.col("_first").isNull() | (F.struct(*PLACE) == F.col("_first"))
    return joined.where(first).select(*rows.columns)


def log_ddl(source: Source) -> str:
    """The columns of the source's log as a schema text: what events carry, then what ingest adds."""
    unknown = {"_unknown": "string"} if source.keep_unknown else {}
    columns = {**source.columns, **unknown, **_LOG_COLUMNS}
    return ", ".join(f"{quote(name)} {type_name}" for name, type_name in columns.items())


def log_columns(source: Source) -> list[str]:
    """What views and expectations may read of the log, quoted: all but the bytes of rejected records."""
    return [quote(name) for name in (*source.columns, *_LOG_COLUMNS) if name != "_raw"]


def log_schema(source: Source) -> StructType:
    """The log's schema; needs a running session, because Spark itself reads the text."""
    schema = StructType.fromDDL(log_ddl(source))
    assert isinstance(schema, StructType)
    return schema


def view_events(view: View, log: DataFrame, table_of: TableOf) -> DataFrame:
    """The accepted events that the view measures, with the columns that it needs, `day` and `_epoch`."""
    events = log.where("_error is null").selectExpr(*map(quote, [*used_columns(view), "day", "_epoch"]))
    for lookup in used_lookups(view):
        events = enrich(events, lookup, table_of(lookup))
    for name, sql in used_derive(view).items():
        events = events.selectExpr("*", f"{as_one(sql)} as {quote(name)}")
    for name, sql in view.each.items():
        events = events.selectExpr("*", f"explode{as_one(sql)} as {quote(name)}")
    if view.where is not None:
        events = events.where(as_one(view.where))
    return events.selectExpr(*map(quote, event_columns(view)))


def event_columns(view: View) -> tuple[str, ...]:
    """What `view_events` gives, in order."""
    inputs = (column for measure in view.measures.values() for column in measure.columns)
    return tuple(dict.fromkeys((view.source.event_time, "day", "_epoch", *view.keys, *inputs)))


def enrich(events: DataFrame, lookup: Lookup, table: DataFrame) -> DataFrame:
    """A left join: an event is never lost and never multiplied, whatever the table holds."""
    unique = one_row_per_key(lookup, table, types_of(events))
    same = [events[quote(key)] == unique[quote(_joined(key))] for key in lookup.keys]
    joined = events.join(F.broadcast(unique), on=same, how="left")
    return joined.drop(*map(_joined, lookup.keys))


def one_row_per_key(lookup: Lookup, table: DataFrame, event_types: dict[str, str]) -> DataFrame:
    """The table with its keys as the event's types; of rows with one key, always the same is taken."""
    keys = [
        F.expr(f"try_cast({quote(key)} as {event_types[key]})").alias(_joined(key)) for key in lookup.keys
    ]
    added = [F.col(quote(column)).alias(name) for column, name in lookup.added.items()]
    rows = table.select(*keys, F.struct(*added).alias("_row"))
    chosen = rows.groupBy(*map(_joined, lookup.keys)).agg(F.min("_row").alias("_row"))
    return chosen.select(*map(_joined, lookup.keys), "_row.*")


def read_lookup(spark: SparkSession, lookup: Lookup, base_of: BaseOf | None = None) -> DataFrame:
    """The table of a lookup; the base of a view is read through `base_of`."""
    if lookup.view is not None:
        if base_of is None:
            raise BraidError(f"{lookup.label} is a view, and its base cannot be read here.")
        return base_of(lookup.view)
    try:
        if lookup.kind == "csv":
            return _read_csv(spark, lookup)
        return spark.read.format(lookup.kind).load(lookup.location)
    except PySparkException as error:
        raise BraidError(
            f"{lookup.label} cannot be read as {lookup.kind}, from {Path.cwd()}: {first_line(error)}. Write the "
            "table, mend its path, or set format= on the Lookup."
        ) from None


def _read_csv(spark: SparkSession, lookup: Lookup) -> DataFrame:
    """Keys stay as they are written: a guessed number would lose the leading zeros of a code."""
    reader = spark.read.option("header", True)
    guessed = reader.option("inferSchema", True).csv(lookup.location).schema
    columns = (
        f"{quote(field.name)} {'string' if field.name in lookup.keys else field.dataType.simpleString()}"
        for field in guessed
    )
    return reader.schema(", ".join(columns)).csv(lookup.location)


def types_of(rows: DataFrame) -> dict[str, str]:
    """Name -> Spark type of a DataFrame's columns."""
    return dict(rows.dtypes)


def as_one(sql: str) -> str:
    """An expression that stays one beside others, also when it ends in a comment."""
    return f"({sql}\n)"


def first_line(error: Exception) -> str:
    """What Spark says, without the plan that it prints below."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].split(" SQLSTATE:")[0] if lines else type(error).__name__


def _joined(key: str) -> str:
    return f"_key_{key}"
