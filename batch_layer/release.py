"""A person overrules a gate: the reason is recorded, and the day is published as it was when it was held."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from batch_layer import days as records
from batch_layer.plan import Days, PlannedDay, plan
from batch_layer.run import run
from batch_layer.tasks import Asked, DayResult
from braid.define.view import View
from braid.deploy import store as deployment
from braid.errors import BraidError
from braid.runtime.settings import Settings
from braid.tables.view_tables import ViewTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def release(
    spark: "Callable[[], SparkSession]",
    settings: Settings,
    views: Sequence[View],
    day: date,
    because: str,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> list[DayResult]:
    """Publishes what gates hold of a day, in these views, and notes why. Spark starts only if there is something."""
    if not because.strip():
        raise BraidError("the reason is empty: say with --because why the day is right as it is.")
    held = [
        planned
        for source in plan(settings, views, Days(day, day))
        for planned in source.days
        if planned.state == "held"
    ]
    if not held:
        raise BraidError(
            f"no gate holds the day {day} in {', '.join(view.name for view in views)}: `braid batch board` shows which "
            "days are held."
        )
    results = []
    for planned in held:
        cut = _released(
            settings, planned, {view.name: view for view in views}[planned.view], because, clock()
        )
        asked = Asked(Days(day, day), cut)
        chosen = [view for view in views if view.name == planned.view]
        results += run(spark, settings, chosen, asked, clock=clock)
    return results


def _released(settings: Settings, planned: PlannedDay, view: View, because: str, now: datetime) -> datetime:
    """Notes it at the view's own gate and at its source's, and returns the cut that was held."""
    assert planned.gate is not None
    gate = records.released(planned.gate, because, now)
    active = deployment.load(settings, view.name).active
    assert active is not None
    tables = ViewTables.of(settings, active)
    records.write_days(tables, [replace(records.read_day(tables, planned.day), gate=gate)])
    of_source = records.read_gates(settings, view.source.name).get(planned.day)
    if of_source is not None and of_source.holds:
        overruled = {planned.day: records.released(of_source, because, now)}
        records.write_gates(settings, view.source.name, overruled)
    return gate.cut
