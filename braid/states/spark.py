"""States of a view as Spark DataFrames: events to states, states to states, states to numbers."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from braid.define.schema import quote
from braid.define.windows import Fixed, Session
from braid.measures.base import COUNTED, Measure
from braid.states import state_columns
from braid.states.calendar import micros
from braid.states.spark_calendar import in_windows, pane_start

if TYPE_CHECKING:
    from braid.define.view import View

# Names with an underscore are nobody else's: an event may well have a column called "first" or "pane".
_PANE, _ISLAND, _BEGINS, _SLOT, _BUCKET = "_pane", "_island", "_begins", "_slot", "_bucket"


def prepare(view: "View", events: DataFrame, extra: Sequence[str] = ()) -> DataFrame:
    """States per (extra, day, pane or session, keys) of rows that have event time, `day`, keys and inputs."""
    return preparation(view, events.schema, extra)(events)


def preparation(
    view: "View", schema: StructType, extra: Sequence[str] = ()
) -> Callable[[DataFrame], DataFrame]:
    """`prepare` for rows of a known schema. Its columns are made once: a stream uses them for every micro-batch."""
    measures, by = state_columns(view), [*extra, "day"]
    types: dict[str | None, DataType] = {
        column: schema[column].dataType for measure in measures.values() for column in measure.columns
    }
    buckets = {
        name: bucket
        for name, measure in measures.items()
        if (bucket := measure.bucket(types.get(measure.column))) is not None
    }
    direct = {name: measure for name, measure in measures.items() if name not in buckets}
    prepared = [measure.prepare(types.get(measure.column)).alias(name) for name, measure in direct.items()]
    time, keys = F.col(view.source.event_time), [F.col(quote(key)) for key in view.keys]
    bounds = _bounds(view, view.source.event_time, view.source.event_time)
    columns = _columns(view, by)
    if buckets:
        return lambda events: _prepared_by_bucket(view, events, by, buckets, direct, prepared)
    if isinstance(view.window, Session):
        # The same sessions as `_islands` finds, in half the time; but it cannot be told to count by bucket.
        place = F.session_window(time, f"{micros(view.window.gap)} microseconds")
    else:
        place = pane_start(time, view.window.pane, view.source.timezone).alias(_PANE)
    group = [*map(F.col, by), place, *keys]
    return lambda events: events.groupBy(*group).agg(*bounds, *prepared).select(*columns)


def _prepared_by_bucket(
    view: "View",
    events: DataFrame,
    by: Sequence[str],
    buckets: dict[str, Column],
    direct: Mapping[str, Measure],
    prepared: Sequence[Column],
) -> DataFrame:
    """Histograms: events are counted by bucket first, then gathered."""
    measures = state_columns(view)
    placed, group = _placed(view, events, by)
    counted = _per_bucket(placed, buckets).groupBy(*group, _SLOT, _BUCKET)
    bounds = _bounds(view, view.source.event_time, view.source.event_time)
    rows = counted.agg(*bounds, *prepared, F.count(F.lit(1)).alias(COUNTED))
    for slot, name in enumerate(buckets):
        rows = rows.withColumn(measures[name].bucket_column, F.when(F.col(_SLOT) == slot, F.col(_BUCKET)))
    # The other measures were prepared for every slot; those of the first are the events, once.
    in_first = F.col(_SLOT) == 0
    merged = [measure.merge(F.when(in_first, F.col(name))).alias(name) for name, measure in direct.items()]
    merged += [measures[name].prepare(None).alias(name) for name in buckets]
    return rows.groupBy(*group).agg(*_bounds(view), *merged).select(*_columns(view, by))


def merge(
    view: "View", states: DataFrame, by: Sequence[str] = ("day",), totals: Sequence[str] = ()
) -> DataFrame:
    """One state per (by, pane, keys); partial sessions of one `by` are joined where the gap allows.

    `totals` are further columns that are added up, and kept behind the others.
    """
    placed, group = states.withColumnRenamed("pane", _PANE), [*by, _PANE, *view.keys]
    if isinstance(view.window, Session):
        placed, group = _islands(view.window, states, [*by, *view.keys], F.col("first"), F.col("last"))
    added = [F.sum(name).alias(name) for name in totals]
    merged = placed.groupBy(*group).agg(*_bounds(view), *_merges(view), *added)
    return merged.select(*_columns(view, by, totals))


def present(view: "View", states: DataFrame, grain: str | None = None) -> DataFrame:
    """Numbers per (keys, window): keys, window_start and window_end (but for all time), measures."""
    window = view.window.read_as(grain)
    if isinstance(window, Session):
        merged = merge(view, states, by=())
        end = F.timestamp_micros(F.unix_micros(F.col("last")) + F.lit(micros(window.gap)))
        bounds = [F.col("first").alias("window_start"), end.alias("window_end")]
    elif isinstance(window, Fixed):
        merged = (
            in_windows(states, window, view.source.timezone)
            .groupBy(*view.keys, "window_start", "window_end")
            .agg(*_merges(view))
        )
        bounds = [F.col("window_start"), F.col("window_end")]
    else:
        # Grouped by a constant: no states are no rows, with keys and without.
        merged = states.groupBy(*view.keys, F.lit(0).alias("_all")).agg(*_merges(view))
        bounds = []
    numbers = [m.present(F.col(m.state_name)).alias(name) for name, m in view.measures.items()]
    return merged.select(*map(F.col, view.keys), *bounds, *numbers)


def _merges(view: "View") -> list[Column]:
    return [measure.merge(F.col(name)).alias(name) for name, measure in state_columns(view).items()]


def _placed(view: "View", events: DataFrame, by: Sequence[str]) -> tuple[DataFrame, list[str]]:
    """Events with the pane or session that each is in, and the columns to group them by."""
    time = F.col(view.source.event_time)
    if isinstance(view.window, Session):
        # An event alone is a session from its time to its time: preparing joins those as merging does.
        return _islands(view.window, events, [*by, *view.keys], time, time)
    pane = pane_start(time, view.window.pane, view.source.timezone)
    return events.withColumn(_PANE, pane), [*by, _PANE, *view.keys]


def _per_bucket(events: DataFrame, buckets: dict[str, Column]) -> DataFrame:
    """Each event once for every histogram, with its bucket there."""
    slots = [
        F.struct(F.lit(slot).alias(_SLOT), bucket.alias(_BUCKET))
        for slot, bucket in enumerate(buckets.values())
    ]
    return events.select("*", F.inline(F.array(*slots)))


def _islands(
    window: Session, sessions: DataFrame, group: Sequence[str], first: Column, last: Column
) -> tuple[DataFrame, list[str]]:
    """Sessions numbered by the stretch of time without a longer pause than the gap that they are part of."""
    in_order = Over.partitionBy(*group).orderBy(first, last)
    so_far = F.max(last).over(in_order.rowsBetween(Over.unboundedPreceding, -1))
    pause = F.unix_micros(first) - F.unix_micros(so_far)
    begins = F.when(pause <= micros(window.gap), 0).otherwise(1)
    until_here = in_order.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    numbered = sessions.withColumn(_BEGINS, begins).withColumn(_ISLAND, F.sum(_BEGINS).over(until_here))
    return numbered, [*group, _ISLAND]


def _bounds(view: "View", first: str = "first", last: str = "last") -> list[Column]:
    return [F.min(first).alias("first"), F.max(last).alias("last")] if _has_sessions(view) else []


def _columns(view: "View", by: Sequence[str], totals: Sequence[str] = ()) -> list[Column]:
    """The columns of a state table, in its order."""
    bounds = [F.col("first"), F.col("last")] if _has_sessions(view) else [F.col(_PANE).alias("pane")]
    return [*map(F.col, by), *bounds, *map(F.col, map(quote, (*view.keys, *state_columns(view), *totals)))]


def _has_sessions(view: "View") -> bool:
    return isinstance(view.window, Session)
