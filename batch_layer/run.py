"""Computes days and publishes them: one scan of the log for all views of a source, audited before anybody sees them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from batch_layer import days as records
from batch_layer.accuracy import accuracies
from batch_layer.days import Accuracy, Gate, Publish
from batch_layer.gates import data_docs
from batch_layer.gates import inputs as input_gate
from batch_layer.gates.judge import OutputDay, audit_output, totals
from batch_layer.plan import SourcePlan, plan
from batch_layer.publish import publish
from batch_layer.tasks import Asked, DayResult, Task, chunks, task_of, up_to_date
from braid.define.view import View
from braid.deploy import store as deployment
from braid.log.lookups import LookupTables
from braid.log.table import Log
from braid.recompute import day_rows, on_days, recompute
from braid.runtime.logging import Log as Logger
from braid.runtime.settings import Settings
from braid.tables import view_tables
from braid.tables.delta_rs import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = Logger("batch")

Watch = Callable[[int, int, str], None]


def run(
    spark: "Callable[[], SparkSession]",
    settings: Settings,
    views: Sequence[View],
    asked: Asked,
    *,
    watch: Watch = lambda done, total, what: None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> list[DayResult]:
    """Computes the days that are due. A day that its gate holds is not published, and does not stop the others.

    Spark is asked for only if there is something to compute.
    """
    for view in views:
        deployment.deploy_first(settings, view, clock())
    plans = plan(settings, views, asked.days, asked.cut)
    total = sum(asked.wants(day) for source in plans for day in source.days)
    results: list[DayResult] = []
    for source in plans:
        results += [up_to_date(day) for day in source.days if asked.is_explicit and not asked.wants(day)]
        if not any(map(asked.wants, source.days)):
            continue
        batch = _SourceRun(spark(), settings, source, {view.name: view for view in views}, asked, clock)
        for result in batch.results():
            results.append(result)
            watch(sum(one.outcome != "up to date" for one in results), total, f"{result.view} {result.day}")
    if total:
        data_docs.build(settings)
    return results


@dataclass
class _SourceRun:
    """The days of one source's views."""

    spark: "SparkSession"
    settings: Settings
    plan: SourcePlan
    views: dict[str, View]
    asked: Asked
    clock: Callable[[], datetime]

    def results(self) -> Iterator[DayResult]:
        wanted = [task_of(self.settings, day) for day in self.plan.days if self.asked.wants(day)]
        for tasks in chunks(wanted):
            yield from self._chunk(tasks)

    def _chunk(self, tasks: list[Task]) -> Iterator[DayResult]:
        """Days that share one scan of the log."""
        log, days = Log(self.plan.source, self.settings), {task.day for task in tasks}
        rows = day_rows(self.spark, log, days, max(task.cut for task in tasks))
        with input_gate.kept(rows, log.source) as held:
            counts = {row.day: row["count"] for row in held.groupBy("day").count().collect()}
            gates = {
                day: self._input_gate(held, day, max(task.cut for task in tasks if task.day == day))
                for day in sorted(days)
            }
            tasks.sort(key=lambda task: (task.planned.view, task.cut))
            for (_, cut), group in groupby(tasks, key=lambda task: (task.planned.view, task.cut)):
                yield from self._view(list(group), held, cut, gates, counts)

    def _input_gate(self, rows: "DataFrame", day: date, cut: datetime) -> Gate:
        known = records.read_gate(self.settings, self.plan.source, day)
        if known is not None and known.cut == cut and not self.asked.force:
            return known
        return input_gate.judge(self.settings, self.plan, rows, day, cut)

    def _view(
        self,
        tasks: list[Task],
        rows: "DataFrame",
        cut: datetime,
        gates: dict[date, Gate],
        counts: dict[date, int],
    ) -> Iterator[DayResult]:
        """The days of one view at one cut."""
        let_in = [task for task in tasks if not gates[task.day].holds]
        for task in tasks:
            if gates[task.day].holds:
                yield self._hold(task, gates[task.day])
        if not let_in:
            return
        tables, deployed = tasks[0].tables, tasks[0].version.view
        if open_table(tables.tail) is None:
            view_tables.create(self.spark, tables, deployed, cut)
        chosen = rows.where(on_days(task.day for task in let_in))
        made = recompute(deployed, chosen, LookupTables(self.spark, self.settings, cut))
        states = made.states.persist()
        try:
            events = {row.day: row["count"] for row in made.events.groupBy("day").count().collect()}
            right = accuracies(self.spark, deployed, tables, states, cut)
            for task in let_in:
                copies = self.plan.arrivals.events(task.day, cut) - counts.get(task.day, 0)
                yield self._audit(task, gates[task.day], _Made(
                    states.where(on_days([task.day])), events.get(task.day, 0), max(copies, 0), right.get(task.day),
                    made.lookups.versions,
                ))  # fmt: skip
        finally:
            states.unpersist()

    def _audit(self, task: Task, came_in: Gate, made: "_Made") -> DayResult:
        """The output gate, and the publish if it lets the day pass."""
        record, deployed = records.read_day(task.tables, task.day), task.version.view
        last = record.publish.totals if record.publish else None
        view = replace(deployed, expect=self.views[deployed.name].expect)
        verdict = audit_output(
            self.settings, made.states, OutputDay(view, task.day, task.cut, made.events, last)
        )
        gate = records.judged(record.gate, task.cut, verdict, came_in)
        if gate.holds:
            return self._hold(task, gate)
        covered = publish(self.spark, task.tables, deployed, task.day, made.states, task.cut)
        if covered != task.cut:
            reason = "another run has published a later cut"
            return DayResult(deployed.name, task.day, "up to date", covered, reason)
        rows = made.states.count()
        published = Publish(
            task.cut, self.clock(), made.events, rows, made.duplicates, totals(deployed, made.states), made.accuracy,
            made.lookups,
        )  # fmt: skip
        records.write_day(task.tables, replace(record, publish=published, gate=gate))
        logger.info(
            "published", view=deployed.name, day=str(task.day), cut=task.cut.isoformat(), events=made.events
        )
        return DayResult(
            deployed.name, task.day, "published", task.cut, "", made.events, rows, made.duplicates
        )

    def _hold(self, task: Task, gate: Gate) -> DayResult:
        record = records.read_day(task.tables, task.day)
        records.write_day(task.tables, replace(record, gate=gate))
        reason = gate.verdict.says()
        logger.warning("held", view=task.planned.view, day=str(task.day), reason=reason)
        return DayResult(task.planned.view, task.day, "held", task.cut, reason, task.planned.events)


@dataclass(frozen=True)
class _Made:
    """A day that is computed and not published yet."""

    states: "DataFrame"
    events: int
    duplicates: int
    accuracy: Accuracy | None
    lookups: Mapping[str, str]
