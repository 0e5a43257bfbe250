"""What a comparison found, as values: they are printed, drawn, stored and served."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

from serving_layer.accuracy.lateness.curves import Completeness, Lateness
from serving_layer.accuracy.lateness.what_if import Outcome, WhatIf

Side = Literal["served", "stream alone"]


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
    braid: Outcome
    log: LogCounts
    notes: tuple[str, ...] = ()
    allowed: Mapping[str, float] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return all(one.holds for one in self.comparisons)
