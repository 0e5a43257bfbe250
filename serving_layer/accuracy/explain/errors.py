"""Adds groups up: errors of each number in all groups and by day, and how many groups each cause has."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from braid.define.view import View
from braid.parity import EVENTS_SHOWN, VERDICT, VERDICTS
from serving_layer.accuracy.explain.judge import CAUSES, Judged, error_column
from serving_layer.accuracy.report.values import COPIES, UNEXPLAINED, Cause, DayErrors, Errors

QUANTILES = (0.5, 0.9, 0.99)
EVENTS_NAME = "events"


def totals(judged: Judged) -> tuple[dict[str, Any], dict[date, dict[str, Any]]]:
    """What is counted of all groups, and of those of each day, in one pass."""
    rows = judged.frame.rollup("day").agg(*_counted(judged)).collect()
    found = {row["day"]: row.asDict() for row in rows}
    nothing = (
        judged.frame.agg(F.lit(None).alias("day"), *_counted(judged)).first() if None not in found else None
    )
    everything = found.pop(None) if nothing is None else nothing.asDict()
    return everything, found


def errors_of(judged: Judged, view: View, counted: Mapping[str, Any]) -> tuple[Errors, ...]:
    return tuple(_errors(judged, view, counted, name) for name in judged.values)


def days_of(
    judged: Judged,
    by_day: Mapping[date, Mapping[str, Any]],
    cuts: Mapping[date, datetime],
    allowed: Mapping[str, float],
) -> tuple[DayErrors, ...]:
    """A day that was compared and has no group on either side is right."""
    found = []
    for day, cut in sorted(cuts.items()):
        counted = by_day.get(day, {})
        largest = {_shown(name): counted.get(f"max_relative_{name}") or 0.0 for name in judged.numbers}
        exceeded = tuple(name for name, most in allowed.items() if largest.get(name, 0.0) > most)
        groups = sum(counted.get(verdict, 0) for verdict in VERDICTS)
        found.append(DayErrors(day, cut, groups, counted.get("equal", 0), largest, exceeded))
    return tuple(found)


def causes_of(judged: Judged) -> tuple[Cause, ...]:
    """Causes with their groups; events are the copies that were counted, or by how many events the groups are off."""
    served, right = (F.coalesce(F.col(f"{side}.{EVENTS_SHOWN}"), F.lit(0)) for side in ("_served", "_truth"))
    events: Column = F.abs(served - right)
    for kind in set(COPIES) & set(judged.frame.columns):
        events = F.when(F.col("_cause") == kind, F.col(f"`{kind}`")).otherwise(events)
    rows = (
        judged.frame.withColumn("_cause", F.explode(CAUSES))
        .groupBy("_cause")
        .agg(F.count(F.lit(1)).alias("groups"), F.sum(events).alias("events"))
        .collect()
    )
    return tuple(
        sorted(
            (Cause(row["_cause"], row["groups"], row["events"]) for row in rows),
            key=lambda cause: (cause.name != UNEXPLAINED, -cause.groups),
        )
    )


def _counted(judged: Judged) -> list[Column]:

    served, right = (F.coalesce(F.col(f"{side}.{EVENTS_SHOWN}"), F.lit(0)) for side in ("_served", "_truth"))
    columns = [F.count_if(F.col(VERDICT) == verdict).alias(verdict) for verdict in VERDICTS]
    columns += [
        F.sum(right).alias("events"),
        F.sum(F.greatest(right - served, F.lit(0))).alias("lost"),
        F.sum(F.greatest(served - right, F.lit(0))).alias("twice"),
    ]
    columns += [F.count_if(error_column(name, "right")).alias(f"right_{name}") for name in judged.values]
    quantiles = ", ".join(map(str, QUANTILES))
    for name in judged.numbers:
        absolute, relative, smape = (error_column(name, kind) for kind in ("absolute", "relative", "smape"))
        columns += [
            F.max(absolute).alias(f"max_absolute_{name}"), F.avg(absolute).alias(f"mean_absolute_{name}"),
            F.max(relative).alias(f"max_relative_{name}"), F.avg(relative).alias(f"mean_relative_{name}"),
            F.avg(smape).alias(f"smape_{name}"),
            F.expr(f"percentile({relative}, array({quantiles}))").alias(f"quantiles_{name}"),
        ]  # fmt: skip
    return columns


def _errors(judged: Judged, view: View, counted: Mapping[str, Any], name: str) -> Errors:
    groups = sum(counted[verdict] for verdict in VERDICTS)
    one_sided = counted["missing"] + counted["extra"]
    right = counted[f"right_{name}"]
    quantiles = counted.get(f"quantiles_{name}") or (None,) * len(QUANTILES)
    bound = view.measures[name].bound() if name in view.measures else "exact"
    return Errors(
        _shown(name), bound, groups, right, groups - right - one_sided, counted["missing"], counted["extra"],
        counted.get(f"max_absolute_{name}"), counted.get(f"mean_absolute_{name}"),
        counted.get(f"max_relative_{name}"), counted.get(f"mean_relative_{name}"), counted.get(f"smape_{name}"),
        *quantiles,
    )  # fmt: skip


def _shown(name: str) -> str:
    return EVENTS_NAME if name == EVENTS_SHOWN else name
