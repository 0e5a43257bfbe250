"""Compares what is served of a view with a recompute of its log at the same cuts, and explains every difference."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from pyspark.sql import SparkSession

from braid.define.names import suggest
from braid.define.view import View
from braid.deploy.versions import Version
from braid.errors import BraidError
from braid.log.events import first_copies, view_events
from braid.log.lookups import LookupTables
from braid.log.table import Log
from braid.parity import why_not_comparable
from braid.runtime.settings import Settings
from serving_layer.accuracy.explain.comparable_days import ComparedDays, days_to_compare, pinned_table
from serving_layer.accuracy.explain.copies import copies, counted_copies, rows_of
from serving_layer.accuracy.explain.counterexample import smallest
from serving_layer.accuracy.explain.errors import (
    causes_of,
    days_of,
    errors_of,
    totals,
)
from serving_layer.accuracy.explain.judge import exact_values, judge
from serving_layer.accuracy.explain.variants import Computing, served, streamed_alone
from serving_layer.accuracy.lateness.curves import completeness, lateness
from serving_layer.accuracy.lateness.event_times import event_times
from serving_layer.accuracy.lateness.reading import log_counts, narrow_rows, pinned_log, served_when
from serving_layer.accuracy.lateness.what_if import Losses, what_if
from serving_layer.accuracy.report.values import UNEXPLAINED, Comparison, Report, Side


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
    known = days_to_compare(settings, version, asked.cut, asked.first, asked.last)
    log = Log(version.view.source, settings)
    comparisons = [_compared(spark, settings, today, known, "served")]
    alone = known.stream_alone()
    if alone is not None:
        comparisons.append(_compared(spark, settings, today, alone, "stream alone"))
    brought = served_when(pinned_log(log), pinned_table(known.tables.tail))
    with (
        narrow_rows(spark, known, log, asked.arrival) as rows,
        event_times(version.view, rows, known.span, settings.epoch, asked.arrival, brought) as timed,
    ):
        curves, late = completeness(timed), lateness(timed, version.view.patience)
        others = what_if(timed)
    return Report(
        version.view.name, version.number, datetime.now(UTC), known.newest_cut, tuple(comparisons), curves, late,
        others, _outcome(comparisons[0]), log_counts(spark, log, known), _notes(known, today), today.accuracy,
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
            groups=sum(counted[verdict] for verdict in ("equal", "different", "missing", "extra")),
            **{name: counted[name] or 0 for name in ("equal", "different", "missing", "extra")},
            **{name: counted[name] or 0 for name in ("events", "lost", "twice")},
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


def _require_arrival(view: View, column: str | None) -> None:
    if column is None:
        return
    times = [name for name, kind in view.source.columns.items() if kind == "timestamp"]
    if column not in times:
        raise BraidError(
            f"--arrival {column!r} is not a column of source {view.source.name!r} that holds times. "
            f"{suggest(column, times, 'times')}"
        )
