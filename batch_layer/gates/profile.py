"""Days as rows of numbers: everything that their expectations ask, in one Spark aggregation for all of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from braid.define.expectations import Filled, Holds, has_total
from braid.define.schema import double_quoted, quote
from braid.define.source import Source
from braid.define.view import View
from braid.errors import DefinitionError
from braid.log.events import as_one, first_line
from braid.measures.aggregates import Count
from braid.states import EVENTS, state_columns
from braid.states.calendar import instant_of
from braid.states.database import cursor
from braid.tables.view_tables import bounds

_TOTAL = "_total_"


@dataclass(frozen=True)
class InputProfile:
    """A source's day: its events, how many satisfy each expectation on single events, and the newest arrival."""

    events: int
    satisfied: Mapping[str, int] = field(default_factory=dict)
    """Name of the expectation -> the events that are as it says."""
    newest: datetime | None = None


@dataclass(frozen=True)
class OutputProfile:
    """A view's day: the events that its states hold, what is said about them, and how many states there are."""

    events: int
    with_keys: int
    lowest: int | None
    totals: Mapping[str, float] = field(default_factory=dict)
    """Measure -> the day's total, of counts and sums; a sum that is no finite number is left out."""
    rows: int = 0


def input_profiles(source: Source, events: DataFrame) -> dict[date, InputProfile]:
    """Day -> profile of accepted, deduplicated events with the source's columns and `_arrival`; of days with events."""
    asked = {one.name: _is_satisfied(one) for one in source.expect if isinstance(one, Filled | Holds)}
    newest = F.unix_micros(F.max("_arrival")).alias("newest")
    try:
        counts = [F.count_if(F.expr(sql)).alias(f"_{i}") for i, sql in enumerate(asked.values())]
        rows = events.groupBy("day").agg(F.count(F.lit(1)).alias("events"), newest, *counts).collect()
    except PySparkException as error:
        raise DefinitionError(
            f"source {source.name!r}: expect does not compile: {first_line(error)}. Mend the SQL of its Holds(...)."
        ) from None
    return {
        row["day"]: InputProfile(
            events=row["events"],
            satisfied={name: row[f"_{i}"] for i, name in enumerate(asked)},
            newest=None if row["newest"] is None else instant_of(row["newest"]),
        )
        for row in rows
    }


def no_events(source: Source) -> InputProfile:
    """The profile of a day without events."""
    return InputProfile(0, {one.name: 0 for one in source.expect if isinstance(one, Filled | Holds)})


def output_profiles(view: View, states: DataFrame | pa.Table) -> dict[date, OutputProfile]:
    """Day -> profile of states with the columns of the view's base, wherever they are; of days with states."""
    rows = _in_database(view, states) if isinstance(states, pa.Table) else _in_spark(view, states)
    return {
        row["day"]: OutputProfile(
            row["events"] or 0, row["with_keys"] or 0, row["lowest"], _finite_totals(view, row), row["rows"]
        )
        for row in rows
    }


def _in_spark(view: View, states: DataFrame) -> list[Any]:
    counted = F.col(EVENTS.state_name)
    has_keys = F.lit(True)
    for key in view.keys:
        has_keys = has_keys & _column(key).isNotNull()
    counts = [F.min(name) for name, measure in state_columns(view).items() if isinstance(measure, Count)]
    return (
        _without_marker(view, states)
        .groupBy("day")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.sum(counted).alias("events"),
            F.sum(F.when(has_keys, counted)).alias("with_keys"),
            (F.least(*counts) if len(counts) > 1 else counts[0]).alias("lowest"),
            *_totals(view),
        )
        .collect()
    )


def _in_database(view: View, states: pa.Table) -> list[dict[str, Any]]:
    counted = double_quoted(EVENTS.state_name)
    has_keys = " AND ".join(f"{double_quoted(key)} IS NOT NULL" for key in view.keys) or "true"
    counts = [
        f"min({double_quoted(name)})"
        for name, measure in state_columns(view).items()
        if isinstance(measure, Count)
    ]
    totals = [
        f"({one.merge_sql(double_quoted(one.state_name))})::DOUBLE AS {double_quoted(f'{_TOTAL}{name}')}"
        for name, one in view.measures.items()
        if has_total(one)
    ]
    chosen = [
        "day", "count(*) AS rows", f"sum({counted})::BIGINT AS events",
        f"(sum({counted}) FILTER ({has_keys}))::BIGINT AS with_keys", f"least({', '.join(counts)}) AS lowest", *totals,
    ]  # fmt: skip
    with cursor() as database:
        database.register("states", states)
        first = double_quoted(bounds(view)[0])
        sql = f"SELECT {', '.join(chosen)} FROM states WHERE {first} IS NOT NULL GROUP BY day"
        found: list[dict[str, Any]] = database.sql(sql).to_arrow_table().to_pylist()
        return found


def no_states(view: View) -> OutputProfile:
    """The profile of a day without states."""
    return OutputProfile(0, 0, None, {name: 0.0 for name, one in view.measures.items() if has_total(one)})


def _is_satisfied(one: Filled | Holds) -> str:
    if isinstance(one, Filled):
        return f"{quote(one.column)} is not null"
    return f"coalesce({as_one(one.sql)}, true)"


def _without_marker(view: View, states: DataFrame) -> DataFrame:
    """A day without events is one row that says so and holds no state."""
    return states.where(_column(bounds(view)[0]).isNotNull())


def _column(name: str) -> Column:
    return F.col(quote(name))


def _totals(view: View) -> list[Column]:
    return [
        measure.merge(_column(measure.state_name)).cast("double").alias(f"{_TOTAL}{name}")
        for name, measure in view.measures.items()
        if has_total(measure)
    ]


def _finite_totals(view: View, row: Any) -> dict[str, float]:
    found = {name: row[f"{_TOTAL}{name}"] or 0.0 for name, one in view.measures.items() if has_total(one)}
    return {name: total for name, total in found.items() if math.isfinite(total)}
