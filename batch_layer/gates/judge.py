"""Quality gates: whether a day may be published, judged from one row of numbers about it."""

from datetime import date, datetime
from typing import TYPE_CHECKING

from batch_layer.gates import data_docs
from batch_layer.gates.gauges import Gauge, input_gauges, output_gauges
from batch_layer.gates.profile import input_profile, output_profile, totals
from batch_layer.gates.suite import judge, page
from batch_layer.gates.values import (
    Check,
    InputDay,
    OutputDay,
    Verdict,
)
from braid.runtime.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "Check",
    "InputDay",
    "OutputDay",
    "Verdict",
    "audit_input",
    "audit_output",
    "totals",
]


def audit_input(settings: Settings, events: "DataFrame", day: InputDay) -> Verdict:
    """The source's expectations on its accepted, deduplicated events of the day, up to the cut."""
    if not day.source.expect:
        return Verdict(())
    gauges = input_gauges(day, input_profile(day.source, events))
    return _audited(settings, f"source {day.source.name}", day.day, day.cut, gauges)


def audit_output(settings: Settings, states: "DataFrame", day: OutputDay) -> Verdict:
    """The view's expectations on the states of the day that are about to be published."""
    if not day.view.expect:
        return Verdict(())
    gauges = output_gauges(day, output_profile(day.view, states))
    return _audited(settings, f"view {day.view.name}", day.day, day.cut, gauges)


def _audited(settings: Settings, suite: str, day: date, cut: datetime, gauges: tuple[Gauge, ...]) -> Verdict:
    outcome = judge(suite, day.isoformat(), gauges)
    rendered = page(outcome.validation, day.isoformat(), cut.isoformat())
    data_docs.keep(settings, data_docs.Audit(suite, day, cut, outcome.verdict), outcome.validation, rendered)
    return outcome.verdict
