"""The exact values of measures that are approximate, computed from the events themselves."""

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from braid.define.view import View
from braid.measures import Measure
from braid.measures.histogram import Quantile
from braid.parity import group_columns
from serving_layer.accuracy.explain.copies import in_groups


def approximate(view: View) -> dict[str, Measure]:
    return {name: measure for name, measure in view.measures.items() if measure.error is not None}


def exact_column(name: str) -> str:
    return f"_exact_{name}"


def exact_values(view: View, events: DataFrame, states: DataFrame) -> DataFrame | None:
    """A row per group with the exact values, of events that give these states; None when all measures are exact."""
    wanted = approximate(view)
    if not wanted:
        return None
    placed, group = in_groups(view, events, states), group_columns(view)
    parts = [_exact(placed, group, name, measure) for name, measure in wanted.items()]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)


def _exact(events: DataFrame, group: list[str], name: str, measure: Measure) -> DataFrame:

    value = F.col(str(measure.column))
    if isinstance(measure, Quantile):
        # Ordered and not gathered: a group may be larger than memory.
        by = Window.partitionBy(*group)
        ranked = events.where(value.isNotNull()).select(
            *group,
            value.cast("double").alias(exact_column(name)),
            (F.row_number().over(by.orderBy(value.cast("double"))) - 1).alias("_rank"),
            F.count(F.lit(1)).over(by).alias("_n"),
        )
        return ranked.where(F.col("_rank") == F.floor(F.lit(float(measure.q)) * (F.col("_n") - 1))).drop(
            "_rank", "_n"
        )
    return events.groupBy(*group).agg(F.count_distinct(value).cast("double").alias(exact_column(name)))
