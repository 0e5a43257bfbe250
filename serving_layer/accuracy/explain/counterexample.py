"""The smallest group that nothing explains, with its events: what to look at first when a number is wrong."""

from collections.abc import Mapping
from datetime import datetime
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from braid.cut import stored_under
from braid.define.view import View
from braid.define.windows import Session
from braid.log.events import TableOf
from braid.parity import EVENTS_SHOWN, group_columns
from braid.states import EVENTS
from braid.states.calendar import instant_of
from braid.states.spark_calendar import timestamp
from braid.tables.spark_tables import pinned
from braid.tables.view_tables import bounds
from serving_layer.accuracy.explain.compared_rows import ComparedDays, in_groups, placed_events
from serving_layer.accuracy.explain.judge import CAUSES, Judged, shown_name
from serving_layer.accuracy.report.values import UNEXPLAINED, Counterexample, LogEvent

MOST_EVENTS = 50


def smallest(
    spark: SparkSession, judged: Judged, known: ComparedDays, rows: DataFrame, table_of: TableOf
) -> Counterexample | None:
    view = known.version.view
    sizes = [F.coalesce(F.col(f"{side}.{EVENTS_SHOWN}"), F.lit(0)) for side in ("_served", "_truth")]
    wrong = judged.frame.where(F.array_contains(CAUSES, UNEXPLAINED))
    # Times as numbers: Python would read them in the zone of this machine.
    exactly = {f"_at_{name}": F.unix_micros(name) for name in bounds(view)}
    found = wrong.orderBy(F.greatest(*sizes), *group_columns(view)).limit(1).withColumns(exactly).collect()
    if not found:
        return None
    group = found[0]
    events = _events(view, group, rows, table_of)
    suspects = _suspect_epochs(spark, known, group, events)
    shown = tuple(
        LogEvent(
            row.partition,
            row.offset,
            instant_of(row.epoch),
            instant_of(row.arrival),
            instant_of(row.time),
            instant_of(row.epoch) in suspects,
        )
        for row in events
    )
    # Those of a suspect epoch first: they are what the group is off by.
    shown = tuple(
        sorted(shown, key=lambda event: (not event.suspect, event.epoch, event.partition, event.offset))
    )
    return Counterexample(
        _named(view, group), _numbers(group["_served"]), _numbers(group["_truth"]),
        shown[:MOST_EVENTS], max(0, len(shown) - MOST_EVENTS),
    )  # fmt: skip


def _events(view: View, group: Row, rows: DataFrame, table_of: TableOf) -> list[Row]:
    of_day = rows.where(f"day = date'{group['day']}'")
    events = placed_events(view, of_day, table_of)
    time = F.col(view.source.event_time)
    if isinstance(view.window, Session):
        is_inside = time.between(_bound(group, "first"), _bound(group, "last"))
    else:
        events, is_inside = in_groups(view, events, events), F.col("pane") == _bound(group, "pane")
    mine = events.where(reduce(and_, _same_keys(view, group), is_inside)).orderBy("_place")
    return mine.select(
        F.col("_place._partition").alias("partition"), F.col("_place._offset").alias("offset"),
        F.unix_micros("_place._epoch").alias("epoch"), F.unix_micros("_place._arrival").alias("arrival"),
        F.unix_micros(time).alias("time"),
    ).collect()  # fmt: skip


def _suspect_epochs(spark: SparkSession, known: ComparedDays, group: Row, events: list[Row]) -> set[datetime]:
    """The epochs beyond the base of which the tail has another number of the group's events than the log."""
    view, cut = known.version.view, known.mark.replay_cut if known.mark else None
    through = next((one.through for one in known.days if one.day == group["day"]), None)
    limit = known.limit
    if limit is None:
        return set()
    where = reduce(and_, _same_keys(view, group), F.col("day") == F.lit(group["day"]))
    first, last = bounds(view)[0], bounds(view)[-1]
    where &= F.col(first).between(_bound(group, first), _bound(group, last))
    where &= F.expr(f"epoch <= {timestamp(limit)}")
    tail = pinned(spark, known.tables.tail, known.tail_version).where(where)
    counted = tail.groupBy(F.unix_micros("epoch").alias("epoch")).agg(
        F.sum(EVENTS.state_name).alias("events")
    )
    in_tail = {instant_of(row.epoch): row.events for row in counted.collect()}
    in_log: dict[datetime, int] = {}
    original: dict[datetime, set[datetime]] = {}
    for event in events:
        logged = instant_of(event.epoch)
        stored = stored_under(logged, cut)
        in_log[stored] = in_log.get(stored, 0) + 1
        original.setdefault(stored, set()).add(logged)
    wrong = {
        epoch
        for epoch in in_tail.keys() | in_log.keys()
        if (through is None or epoch > through) and in_tail.get(epoch, 0) != in_log.get(epoch, 0)
    }
    return {epoch for stored in wrong for epoch in original.get(stored, set())}


def _same_keys(view: View, group: Row) -> list[Column]:
    return [F.col(f"`{key}`").eqNullSafe(F.lit(group[key])) for key in view.keys]


def _numbers(side: Row | None) -> Mapping[str, Any] | None:
    if side is None:
        return None
    return {shown_name(name): value for name, value in side.asDict().items()}


def _named(view: View, group: Row) -> dict[str, Any]:
    times = {name: instant_of(group[f"_at_{name}"]) for name in bounds(view)}
    return {"day": group["day"]} | times | {key: group[key] for key in view.keys}


def _bound(group: Row, name: str) -> Column:
    return F.timestamp_micros(F.lit(group[f"_at_{name}"]))
