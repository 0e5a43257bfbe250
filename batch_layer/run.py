"""Computes days and publishes them: one scan of the log, and for each view one audit and one commit for all days."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from batch_layer import days as records
from batch_layer.accuracy import accuracies
from batch_layer.days import DayRecord, Gate
from batch_layer.derived import correct
from batch_layer.gates import data_docs
from batch_layer.gates import inputs as input_gate
from batch_layer.gates.judge import audit_outputs, load_in_background
from batch_layer.gates.profile import InputProfile, input_profiles, output_profiles
from batch_layer.gates.values import OutputDay
from batch_layer.lineage import jobs, told_of
from batch_layer.plan import SourcePlan, plan
from batch_layer.publish import Done, MadeDays, publish
from batch_layer.tasks import Asked, DayResult, ViewDays, chunks, up_to_date, view_days
from braid.define.view import View
from braid.deploy import store as deployment
from braid.lineage.runs import traced
from braid.log.lookups import LookupTables
from braid.log.table import Log
from braid.recompute import Recomputed, day_rows, recompute_days, upto
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings
from braid.states.spark_calendar import on_days
from braid.tables import spark_tables
from braid.tables.delta_rs import open_table, table_id

logger = Logger("batch")

Watch = Callable[[int, int, str], None]
# While one view is planned, audited and committed, which is the driver's work, another is computed.
VIEWS_AT_ONCE = 2
# States of days with up to so many events are audited, compared and written by this process: Spark would take longer to
# begin. A state has about a hundred bytes.
MOST_HERE = 500_000


def run(
    spark: Callable[[], SparkSession],
    settings: Settings,
    views: Sequence[View],
    asked: Asked,
    *,
    watch: Watch = lambda done, total, what: None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> list[DayResult]:
    """Computes the days that are due. A day that its gate holds is not published, and does not stop the others.

    Spark is asked for only if there is something to compute. What the streams of derived sources missed is handed to
    ingest first: it makes their days stale when it arrives.
    """
    correct(spark, settings, [view.source for view in views])
    for view in views:
        deployment.deploy_first(settings, view, clock())
    plans = plan(settings, views, asked.days, asked.cut)
    total, done = sum(asked.wants(day) for source in plans for day in source.days), 0
    results: list[DayResult] = []
    if total and any(view.expect or view.source.expect for view in views):
        load_in_background()
    with traced(settings, lambda: jobs(settings, plans, asked)) as told:
        for source in plans:
            results += [up_to_date(day) for day in source.days if asked.is_explicit and not asked.wants(day)]
            if not any(map(asked.wants, source.days)):
                continue
            batch = _SourceRun(spark(), settings, source, {view.name: view for view in views}, asked, clock)
            for finished in batch.results():
                results += finished
                done += len(finished)
                watch(done, total, f"{finished[-1].view} {finished[-1].day}")
                told.update(told_of(results))
    if total:
        data_docs.build(settings, all_days=False)
    return results


@dataclass(frozen=True)
class _Portion:
    """What the views of a source share of some days: their rows in the log, what the input gate says, what came."""

    rows: DataFrame
    gates: Mapping[date, Gate]
    came: Mapping[date, InputProfile]

    def events(self, day: date) -> int:
        return self.came[day].events if day in self.came else 0


@dataclass
class _SourceRun:
    """The days of one source's views."""

    spark: SparkSession
    settings: Settings
    plan: SourcePlan
    views: dict[str, View]
    asked: Asked
    clock: Callable[[], datetime]

    def results(self) -> Iterator[list[DayResult]]:
        wanted = view_days(self.settings, [day for day in self.plan.days if self.asked.wants(day)])
        for days in chunks(wanted):
            chosen = [view.only(set(days)) for view in wanted]
            yield from self._chunk([view for view in chosen if view.cuts])

    def _chunk(self, views: list[ViewDays]) -> Iterator[list[DayResult]]:
        """Days that share one scan of the log."""
        log = Log(self.plan.source, self.settings)
        cuts = {day: max(v.cuts[day] for v in views if day in v.cuts) for view in views for day in view.cuts}
        rows = day_rows(self.spark, log, cuts, max(cuts.values()))
        with input_gate.kept(rows, log.source) as held:
            profiles = input_profiles(log.source, upto(held, cuts))
            gates = input_gate.judge(self.settings, self.plan, profiles, cuts, self.asked.force)
            threads = ThreadPoolExecutor(VIEWS_AT_ONCE, "view")
            try:
                shared = _Portion(held, gates, profiles)
                for found in [threads.submit(self._view, view, shared) for view in views]:
                    yield found.result()
            finally:
                threads.shutdown(cancel_futures=True)

    def _view(self, days: ViewDays, shared: _Portion) -> list[DayResult]:
        """Days of one view, in its order: parts of them that differ in their lookups are published one by one."""
        found = [one for part in days.by_lookups() for one in self._part(part, shared)]
        return sorted(found, key=lambda one: one.day)

    def _part(self, days: ViewDays, shared: _Portion) -> list[DayResult]:
        """Days with the same lookups: those that are let in are computed, audited, and published in one commit."""
        known, gates = records.read_days(days.tables), shared.gates
        held = {day: gates[day] for day in days.cuts if gates[day].holds}
        let_in = days.only(days.cuts.keys() - held.keys())
        done: dict[date, Done] = {}
        if let_in.cuts:
            with self._made(let_in, shared) as made:
                judged = self._judged(made, gates, known)
                held |= {day: gate for day, gate in judged.items() if gate.holds}
                passing = let_in.only(let_in.cuts.keys() - held.keys())
                covered = publish(
                    self.spark, days.tables, days.view, made.states, passing.cuts, made.profiles
                )
            at = self.clock()
            done = {day: made.done(day, through, judged[day], at) for day, through in covered.items()}
        done |= {day: _held(days, known.get(day, DayRecord(day)), gate) for day, gate in held.items()}
        records.write_days(days.tables, [one.record for one in done.values() if one.record is not None])
        results = [done[day].result for day in sorted(done)]
        _log_published(days, results)
        return results

    @contextmanager
    def _made(self, days: ViewDays, shared: _Portion) -> Iterator[MadeDays]:
        """The states of days, kept while they are audited, compared with what is served, and published."""
        if open_table(days.tables.tail) is None:
            log = Log(days.view.source, self.settings).table
            spark_tables.create(self.spark, days.tables, days.view, days.latest, table_id(log))
        lookups = LookupTables(self.spark, self.settings, days.latest)
        made = recompute_days(days.view, shared.rows.where(on_days(days.cuts)), lookups, days.cuts)
        with _at_hand(made.states, days, shared) as states:
            profiles = output_profiles(days.view, states)
            right = accuracies(self.spark, days.view, days.tables, states, days.cuts)
            copies = {
                day: max(self.plan.arrivals.events(day, cut) - shared.events(day), 0)
                for day, cut in days.cuts.items()
            }
            events = _counted(days, made, shared)
            yield MadeDays(days, states, events, copies, profiles, right, made.lookups.versions)

    def _judged(
        self, made: MadeDays, gates: Mapping[date, Gate], known: Mapping[date, DayRecord]
    ) -> dict[date, Gate]:
        """What the output gate says of each day, after what the input gate said of it."""
        days = made.days
        # What is expected is policy: that of today's definitions, whatever is deployed.
        view = replace(days.view, expect=self.views[days.view.name].expect)
        asked = []
        for day, cut in days.cuts.items():
            last = known[day].publish if day in known else None
            one = OutputDay(view, day, cut, made.events.get(day, 0), last.totals if last else None)
            asked.append((one, made.profile(day)))
        judgement = audit_outputs(asked)
        data_docs.keep(self.settings, f"view {view.name}", judgement.validation)
        return {
            day: records.judged(
                known[day].gate if day in known else None, days.cuts[day], verdict, gates[day]
            )
            for day, verdict in judgement.verdicts.items()
        }


@contextmanager
def _at_hand(states: DataFrame, days: ViewDays, shared: _Portion) -> Iterator[DataFrame | pa.Table]:
    """States that are read several times: here, where they are few, and otherwise kept by Spark.

    A state holds an event or more, unless the view repeats its events: so few events have no more states.
    """
    if not days.view.each and sum(map(shared.events, days.cuts)) <= MOST_HERE:
        yield states.toArrow()
        return
    kept = states.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def _counted(days: ViewDays, made: Recomputed, shared: _Portion) -> dict[date, int]:
    """Day -> the events that went into its states. A view that takes all of them has as many as came."""
    is_known = all(shared.gates[day].cut == cut for day, cut in days.cuts.items())
    if is_known and days.view.where is None and not days.view.each:
        return {day: shared.events(day) for day in days.cuts}
    return {row.day: row["count"] for row in made.events.groupBy("day").count().collect()}


def _held(days: ViewDays, known: DayRecord, gate: Gate) -> Done:
    """A day that a gate holds is on record as it was, with what the gate says."""
    day, reason = known.day, gate.verdict.says()
    logger.warning("held", view=days.view.name, day=str(day), reason=reason)
    result = DayResult(days.view.name, day, "held", days.cuts[day], reason, days.planned[day].events)
    return Done(result, replace(known, gate=gate))


def _log_published(days: ViewDays, results: Sequence[DayResult]) -> None:
    done = [one for one in results if one.outcome == "published"]
    if done:
        logger.info(
            "published", view=days.view.name, days=len(done), first=str(min(one.day for one in done)),
            last=str(max(one.day for one in done)), cut=days.latest.isoformat(),
            events=sum(one.events for one in done),
        )  # fmt: skip
