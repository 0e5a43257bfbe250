"""A day as one row of numbers: everything that its expectations ask, in one Spark aggregation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from braid.define.expectations import Filled, Holds, has_total
from braid.define.schema import quote
from braid.define.source import Source
from braid.define.view import View
from braid.errors import DefinitionError
from braid.log.events import as_one, first_line
from braid.measures.counts import Count
from braid.states import EVENTS, state_columns
from braid.tables.view_tables import bounds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    """A view's day: the events that its states hold, and what is said about them."""

    events: int
    with_keys: int
    lowest: int | None
    totals: Mapping[str, float] = field(default_factory=dict)


def input_profile(source: Source, events: "DataFrame") -> InputProfile:
    """The profile of accepted, deduplicated events with the source's columns and `_arrival`."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    asked = {one.name: _is_satisfied(one) for one in source.expect if isinstance(one, Filled | Holds)}
    newest = F.unix_micros(F.max("_arrival")).alias("newest")
    try:
        counts = [F.count_if(F.expr(sql)).alias(f"_{i}") for i, sql in enumerate(asked.values())]
        row = events.agg(F.count(F.lit(1)).alias("events"), newest, *counts).first()
    except PySparkException as error:
        raise DefinitionError(
            f"source {source.name!r}: expect does not compile: {first_line(error)}. Mend the SQL of its Holds(...)."
        ) from None
    assert row is not None
    return InputProfile(
        events=row["events"],
        satisfied={name: row[f"_{i}"] for i, name in enumerate(asked)},
        newest=None if row["newest"] is None else datetime.fromtimestamp(row["newest"] / 1_000_000, UTC),
    )


def output_profile(view: View, states: "DataFrame") -> OutputProfile:
    """The profile of states with the columns of the view's base."""
    from pyspark.sql import functions as F

    counted = F.col(EVENTS.state_name)
    has_keys = F.lit(True)
    for key in view.keys:
        has_keys = has_keys & F.col(quote(key)).isNotNull()
    counts = [F.min(name) for name, measure in state_columns(view).items() if isinstance(measure, Count)]
    row = (
        _without_marker(view, states)
        .agg(
            F.sum(counted).alias("events"),
            F.sum(F.when(has_keys, counted)).alias("with_keys"),
            (F.least(*counts) if len(counts) > 1 else counts[0]).alias("lowest"),
            *_totals(view),
        )
        .first()
    )
    assert row is not None
    return OutputProfile(row["events"] or 0, row["with_keys"] or 0, row["lowest"], _finite_totals(view, row))


def totals(view: View, states: "DataFrame") -> Mapping[str, float]:
    """Measure -> the day's total, of counts and sums; a sum that is no finite number is left out."""
    row = _without_marker(view, states).agg(EVENTS.merge(_column(EVENTS.state_name)), *_totals(view)).first()
    assert row is not None
    return _finite_totals(view, row)


def _is_satisfied(one: Filled | Holds) -> str:
    if isinstance(one, Filled):
        return f"{quote(one.column)} is not null"
    return f"coalesce({as_one(one.sql)}, true)"


def _without_marker(view: View, states: "DataFrame") -> "DataFrame":
    """A day without events is one row that says so and holds no state."""
    return states.where(_column(bounds(view)[0]).isNotNull())


def _column(name: str) -> "Column":
    from pyspark.sql import functions as F

    return F.col(quote(name))


def _totals(view: View) -> "list[Column]":
    return [
        measure.merge(_column(measure.state_name)).cast("double").alias(f"{_TOTAL}{name}")
        for name, measure in view.measures.items()
        if has_total(measure)
    ]


def _finite_totals(view: View, row: Any) -> dict[str, float]:
    found = {name: row[f"{_TOTAL}{name}"] or 0.0 for name, one in view.measures.items() if has_total(one)}
    return {name: total for name, total in found.items() if math.isfinite(total)}
