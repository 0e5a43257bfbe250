"""What a comparison found, as values: causes of differences, errors of numbers, and the report in one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

from braid.define.durations import percent
from serving_layer.accuracy.lateness.curves import Completeness, Lateness, Losses, WhatIf

Side = Literal["served", "stream alone"]

BEYOND = "duplicate beyond the horizon"
REQUEUED = "record requeued"
WITHIN = "duplicate within the horizon"
LOOKUP = "lookup changed"
DEFINITION = "definition changed"
SKETCH = "sketch error within its bound"
ROUNDING = "float rounding"
UNEXPLAINED = "unexplained"

COPIES = (BEYOND, REQUEUED, WITHIN)
# Numbers that differ only so are right.
HARMLESS = (SKETCH, ROUNDING)

MEANINGS = {
    BEYOND: "the same event came again after its id was forgotten: a stream counts both, a batch one",
    REQUEUED: "a record of the quarantine was sent again, and its event was there already",
    WITHIN: "a copy that ingest should have dropped: its memory was lost, as with a lost checkpoint",
    LOOKUP: "events were joined to a table as it was then, and a batch joins it as it was at the cut",
    DEFINITION: "the definition is another than the one that is deployed: `braid plan` shows how",
    SKETCH: "an approximate number, as near to the exact one as it promises",
    ROUNDING: "sums of floating-point numbers differ in their last digits with the order of adding",
    UNEXPLAINED: "nothing in the log gives this number: a defect, or a table that was tampered with",
}

SOON = 10
# Less than this is not called near.
MOSTLY = 0.9


@dataclass(frozen=True)
class Errors:
    """One number in all groups: in how many it is right, and how far off it is in the others.

    Errors are relative to what is right, and of an approximate measure to the exact value; `equal` then means within
    its bound.
    """

    name: str
    bound: str
    groups: int
    equal: int
    different: int
    missing: int
    extra: int
    largest_absolute: float | None = None
    mean_absolute: float | None = None
    largest_relative: float | None = None
    mean_relative: float | None = None
    smape: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


@dataclass(frozen=True)
class DayErrors:
    """One day: `largest` has the largest relative error of each number, `exceeded` those above what is allowed."""

    day: date
    cut: datetime
    groups: int
    equal: int
    largest: Mapping[str, float]
    exceeded: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        return self.equal / self.groups if self.groups else 1.0

    @property
    def largest_error(self) -> float:
        return max(self.largest.values(), default=0.0)


@dataclass(frozen=True)
class Cause:
    """Why groups differ, and how many events it is about."""

    name: str
    groups: int
    events: int


@dataclass(frozen=True)
class LogEvent:
    """An event of a counterexample: where it is in the log. `suspect`: its epoch is not served as it was logged."""

    partition: int
    offset: int
    epoch: datetime
    arrival: datetime
    time: datetime
    suspect: bool = False


@dataclass(frozen=True)
class Counterexample:
    """The smallest group that nothing explains: its numbers on both sides, and its events in the log."""

    group: Mapping[str, Any]
    served: Mapping[str, Any] | None
    right: Mapping[str, Any] | None
    events: tuple[LogEvent, ...]
    more: int = 0


@dataclass(frozen=True)
class Comparison:
    """What is served, or what the stream alone would serve, against a recompute of the log at the same cuts."""

    side: Side
    groups: int
    equal: int
    different: int
    missing: int
    extra: int
    events: int
    lost: int
    twice: int
    numbers: tuple[Errors, ...]
    days: tuple[DayErrors, ...]
    causes: tuple[Cause, ...]
    unexplained: int
    counterexample: Counterexample | None = None

    @property
    def days_off(self) -> tuple[DayErrors, ...]:
        """Of days that are right there is nothing to tell."""
        return tuple(day for day in self.days if day.largest_error or day.equal < day.groups)

    @property
    def exceeded(self) -> tuple[DayErrors, ...]:
        return tuple(day for day in self.days if day.exceeded)

    @property
    def holds(self) -> bool:
        return not self.unexplained and not self.exceeded


@dataclass(frozen=True)
class LogCounts:
    """What the log of the view's source holds of the compared days, and what ingest left out of it."""

    accepted: int
    rejected: int
    rejected_by_reason: Mapping[str, int]
    duplicates_dropped: int
    copies: int


@dataclass(frozen=True)
class Report:
    """All that is known about how right a view is: at a moment, up to a cut."""

    view: str
    version: int
    at: datetime
    cut: datetime
    comparisons: tuple[Comparison, ...]
    completeness: Completeness
    lateness: Lateness
    what_if: WhatIf
    braid: Losses
    log: LogCounts
    notes: tuple[str, ...] = ()
    allowed: Mapping[str, float] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return all(one.holds for one in self.comparisons)


def headline(report: Report) -> str:
    """What to say when somebody asks how right the live number is: how right, how soon, and why not more."""
    found = streamed(report)
    return f"{_rightness(found)} {_soon(report)}"


def streamed(report: Report) -> Comparison:
    """What the stream alone says, where that is known: what is published was recomputed."""
    return report.comparisons[-1]


def _rightness(found: Comparison) -> str:
    days = f"{len(found.days)} day{'' if len(found.days) == 1 else 's'}"
    if found.unexplained:
        groups = f"{found.unexplained:,} group{'' if found.unexplained == 1 else 's'}"
        return f"{groups} of {days} cannot be explained by the log: look at the counterexample."
    if found.equal == found.groups:
        return f"Our live number equals a batch recompute in all {found.groups:,} groups of {days}."
    off = found.lost + found.twice
    reasons = " and ".join(cause.name for cause in found.causes if cause.name not in HARMLESS)
    return (
        f"Our live number differs from a batch recompute by {off:,} of {found.events:,} events "
        f"({percent(off / found.events if found.events else 1.0)}), and every one of them is explained: {reasons}."
    )


def _soon(report: Report) -> str:
    curve = report.completeness.all
    if not curve.events:
        return "There are no events yet to say how soon."
    there = curve.at(SOON)
    clock = " by the clock of the events themselves," if report.completeness.clock == "event time" else ""
    when = f"Ten seconds after a window's end{clock} it"
    if there == 1:
        return f"{when} is complete."
    if there < MOSTLY:
        return f"{when} has {percent(there)} of its events: the others come late."
    return f"{when} is within {percent(1 - there)}; what is missing are late events."
