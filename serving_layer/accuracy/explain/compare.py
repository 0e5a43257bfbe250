"""Compares what is served of a view with a recompute of its log at the same cuts: errors, days and causes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from braid.define.names import suggest
from braid.define.view import View
from braid.deploy.versions import Version
from braid.errors import BraidError
from braid.log.events import first_copies, view_events
from braid.log.lookups import LookupTables
from braid.log.table import Log
from braid.parity import EVENTS_SHOWN, VERDICT, VERDICTS, why_not_comparable
from braid.runtime.settings import Settings
from braid.tables.delta_rs import pin_at
from serving_layer.accuracy.explain.compared_rows import (
    ComparedDays,
    copies,
    counted_copies,
    days_to_compare,
    rows_of,
)
from serving_layer.accuracy.explain.counterexample import smallest
from serving_layer.accuracy.explain.judge import CAUSES, Judged, error_column, exact_values, judge, shown_name
from serving_layer.accuracy.explain.variants import Computing, served, streamed_alone
from serving_layer.accuracy.lateness.curves import Losses, completeness, lateness, what_if
from serving_layer.accuracy.lateness.event_times import event_times
from serving_layer.accuracy.lateness.reading import log_counts, narrow_rows, pinned_log, served_when
from serving_layer.accuracy.report.values import (
    COPIES,
    UNEXPLAINED,
    Cause,
    Comparison,
    DayErrors,
    Errors,
    Report,
    Side,
)

QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class CompareOptions:
    """Which days to compare, up to which cut, and the column that says when imported history really came."""

    first: date | None = None
    last: date | None = None
    cut: datetime | None = None
    arrival: str | None = None


def compare(
    spark: SparkSession, settings: Settings, today: View, version: Version, asked: CompareOptions
) -> Report:
    """`today` is the definition as it is written now, `version` the one that is served."""
    _require_arrival(version.view, asked.arrival)
    arrival = asked.arrival or _own_arrival(version.view, today)
    known = days_to_compare(settings, version, asked.cut, asked.first, asked.last)
    log = Log(version.view.source, settings)
    comparisons = [_compared(spark, settings, today, known, "served")]
    alone = known.stream_alone()
    if alone is not None:
        comparisons.append(_compared(spark, settings, today, alone, "stream alone"))
    brought = served_when(pinned_log(log), pin_at(known.tables.tail))
    with (
        narrow_rows(spark, known, log, arrival) as rows,
        event_times(version.view, rows, known.span, settings.epoch, arrival, brought) as timed,
    ):
        curves, late = completeness(timed), lateness(timed, version.view.patience)
        others = what_if(timed)
    return Report(
        version.view.name, version.number, datetime.now(UTC), known.newest_cut, tuple(comparisons), curves, late,
        others, _outcome(comparisons[0]), log_counts(log, known), _notes(known, today), today.accuracy,
    )  # fmt: skip


def _compared(
    spark: SparkSession, settings: Settings, today: View, known: ComparedDays, side: Side
) -> Comparison:
    view, log = known.version.view, Log(known.version.view.source, settings)
    rows = rows_of(spark, log, known)
    again = copies(rows, view.source, known)
    computing = Computing(spark, settings, known, today, rows)
    lookups = LookupTables(spark, settings, known.newest_cut).table_of
    right = computing.judged_by
    variants = computing.variants(
        served(spark, known) if side == "served" else streamed_alone(spark, known), again
    )
    right_events = view_events(right, first_copies(rows, view.source), lookups)
    exact = exact_values(right, right_events, variants.truth)
    of_groups = counted_copies(view, rows, again, variants.streamed, lookups) if again is not None else None
    judged = judge(view, right, variants, exact, of_groups)
    frame = judged.frame.persist()
    try:
        judged = replace(judged, frame=frame)
        counted, by_day = totals(judged)
        causes = causes_of(judged)
        unexplained = next((cause.groups for cause in causes if cause.name == UNEXPLAINED), 0)
        return Comparison(
            side=side,
            groups=sum(counted[verdict] for verdict in VERDICTS),
            **{name: counted[name] or 0 for name in (*VERDICTS, "events", "lost", "twice")},
            numbers=errors_of(judged, right, counted),
            days=days_of(judged, by_day, _cuts(known, by_day), today.accuracy),
            causes=causes,
            unexplained=unexplained,
            counterexample=smallest(spark, judged, known, rows, lookups) if unexplained else None,
        )
    finally:
        frame.unpersist()


def _cuts(known: ComparedDays, by_day: Iterable[date]) -> dict[date, datetime]:
    """The days that have groups, or that were published without any; the log has others, of rejected records."""
    found = set(by_day)
    return {one.day: one.cut for one in known.days if one.day in found or one.through is not None}


def _outcome(found: Comparison) -> Losses:
    """Braid itself, beside what others would have made of the same events."""
    wrong = found.groups - found.equal
    largest = max((one.largest_relative or 0.0 for one in found.numbers if one.name == "events"), default=0.0)
    return Losses(
        "Braid", "every event on exactly one side of its day's cut", found.events, found.lost, found.twice,
        found.groups, wrong, largest,
    )  # fmt: skip


def _notes(known: ComparedDays, today: View) -> tuple[str, ...]:
    notes = [f"{day} was not compared: {why}." for day, why in known.skipped.items()]
    if reason := why_not_comparable(today, known.version.view):
        notes.append(
            f"The definition has changed ({reason}): the version that is served is compared with its own definition. "
            "`braid plan` shows what would change."
        )
    return tuple(notes)


def _own_arrival(view: View, today: View) -> str | None:
    """The column that the source itself names, if the version that is served knows it."""
    column = today.source.arrival
    return column if column in view.source.columns else None


def _require_arrival(view: View, column: str | None) -> None:
    if column is None:
        return
    times = [name for name, kind in view.source.columns.items() if kind == "timestamp"]
    if column not in times:
        raise BraidError(
            f"--arrival {column!r} is not a column of source {view.source.name!r} that holds times. "
            f"{suggest(column, times, 'times')}"
        )


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
    return tuple(_errors(view, counted, name) for name in judged.values)


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
        largest = {shown_name(name): counted.get(f"max_relative_{name}") or 0.0 for name in judged.numbers}
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


def _errors(view: View, counted: Mapping[str, Any], name: str) -> Errors:
    groups = sum(counted[verdict] for verdict in VERDICTS)
    one_sided = counted["missing"] + counted["extra"]
    right = counted[f"right_{name}"]
    quantiles = counted.get(f"quantiles_{name}") or (None,) * len(QUANTILES)
    bound = view.measures[name].bound() if name in view.measures else "exact"
    return Errors(
        shown_name(name), bound, groups, right, groups - right - one_sided, counted["missing"], counted["extra"],
        counted.get(f"max_absolute_{name}"), counted.get(f"mean_absolute_{name}"),
        counted.get(f"max_relative_{name}"), counted.get(f"mean_relative_{name}"), counted.get(f"smape_{name}"),
        *quantiles,
    )  # fmt: skip
