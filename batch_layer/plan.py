"""Which days of which views are to be computed, and why: found without Spark, from the log and what was published."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Literal

from batch_layer.arrivals import Arrivals, closed_epoch, require_closed, throughs
from batch_layer.days import DayRecord, Gate, read_days, read_gates
from braid.define.fingerprint import fingerprint
from braid.define.source import Source
from braid.define.view import View
from braid.deploy import store as deployment
from braid.errors import BraidError
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.delta_log import newest_version
from braid.tables.tail_and_base import is_base_lost
from braid.tables.view_tables import ViewTables

State = Literal[
    "never computed", "stale", "definition changed", "tail lost", "base lost", "held", "up to date"
]


@dataclass(frozen=True)
class PlannedDay:
    """A day of a view: what is published of it, what the log has beyond that, and what follows."""

    view: str
    day: date
    state: State
    reason: str
    cut: datetime
    through: datetime | None
    events: int
    beyond: int
    since: datetime | None
    record: DayRecord
    gate: Gate | None = None
    # Whether a run that was asked for nothing special computes it; a held day waits for a person or for events.
    is_due: bool = False


@dataclass(frozen=True)
class Days:
    """The days that were asked for; all that have events when no end is given."""

    first: date | None = None
    last: date | None = None

    def __post_init__(self) -> None:
        if self.first is not None and self.last is not None and self.first > self.last:
            raise BraidError(f"the first day, {self.first}, is after the last, {self.last}: swap them.")

    def of(self, known: Iterable[date]) -> list[date]:
        """Between two given days each one counts, with events or without."""
        if self.first is not None and self.last is not None:
            return [self.first + timedelta(days=n) for n in range((self.last - self.first).days + 1)]
        return sorted(day for day in known if self._has(day))

    def _has(self, day: date) -> bool:
        return (self.first is None or day >= self.first) and (self.last is None or day <= self.last)


ALL = Days()


@dataclass(frozen=True)
class SourcePlan:
    """One source's log up to a cut, and the days of its views."""

    source: Source
    cut: datetime
    arrivals: Arrivals
    days: tuple[PlannedDay, ...]


def plan(
    settings: Settings, views: Sequence[View], days: Days = ALL, cut: datetime | None = None
) -> list[SourcePlan]:
    """For each source of these views: what its log holds, and the state of each day of each view."""
    found = []
    sources = {view.source.name: view.source for view in views}
    for source in sources.values():
        log = Log(source, settings)
        upto = closed_epoch(log) if cut is None else require_closed(log, cut)
        if upto is None:
            continue
        arrivals, gates = Arrivals.of(log), read_gates(settings, source.name)
        planned = [
            day
            for view in views
            if view.source.name == source.name
            for day in _days_of_view(settings, view, arrivals, gates, days, upto)
        ]
        found.append(SourcePlan(source, upto, arrivals, tuple(planned)))
    return found


def lambda_views(views: Iterable[View], wanted: Sequence[str] = ()) -> list[View]:
    """The views that the batch layer computes; one that is asked for by name must be one of them."""
    known = {view.name: view for view in views}
    for name in wanted:
        if known[name].mode == "kappa":
            raise BraidError(
                f"view {name!r} is served by its stream alone (mode='kappa'), so it has no batch: "
                f"`braid kappa replay {name}` computes it anew, and mode='lambda' would give it to the batch layer."
            )
    return [view for view in known.values() if view.mode == "lambda" and (not wanted or view.name in wanted)]


def _days_of_view(
    settings: Settings, view: View, arrivals: Arrivals, gates: Mapping[date, Gate], days: Days, cut: datetime
) -> list[PlannedDay]:
    active = deployment.load(settings, view.name).active
    changed = active is not None and active.fingerprint != fingerprint(view)
    tables = ViewTables.of(settings, active) if active else None
    covered = throughs(tables) if tables else {}
    records = read_days(tables) if tables else {}
    tail_is_lost = tables is not None and bool(covered) and newest_version(tables.tail) is None
    base_is_lost = tables is not None and is_base_lost(tables)
    planned = []
    for day in days.of({*arrivals.days, *covered, *records}):
        record = records.get(day, DayRecord(day))
        gate = record.held or _holding(gates.get(day), record)
        found = _state(PlannedDay(
            view.name, day, "up to date", "", cut, covered.get(day), arrivals.events(day, cut), 0, None, record, gate,
        ), arrivals)  # fmt: skip
        if changed and found.state != "held":
            found = replace(
                found, state="definition changed",
                reason="batch and stream go on with the deployed definition: `braid apply` changes it",
            )  # fmt: skip
        if tail_is_lost or base_is_lost:
            found = replace(
                found, state="tail lost" if tail_is_lost else "base lost", is_due=False,
                reason=f"what was in it is not served: `braid kappa replay {view.name}` builds the view anew",
            )  # fmt: skip
        planned.append(found)
    return planned


def _holding(gate: Gate | None, record: DayRecord) -> Gate | None:
    """The gate of a source, as long as it holds more than what is published."""
    if gate is None or not gate.holds:
        return None
    return gate if record.publish is None or gate.cut > record.publish.cut else None


def _state(day: PlannedDay, arrivals: Arrivals) -> PlannedDay:
    through = day.through
    if through is not None:
        beyond, since = arrivals.beyond(day.day, through, day.cut)
        day = replace(day, beyond=beyond, since=since)
    if day.gate is not None:
        newer, _ = arrivals.beyond(day.day, day.gate.cut, day.cut)
        return replace(day, state="held", reason=day.gate.verdict.says(), is_due=newer > 0)
    if through is None or day.record.publish is None:
        reason = "its stream folded it, no batch has computed it" if through else f"{day.events:,} events"
        return replace(day, state="never computed", reason=reason, is_due=True)
    if day.since is None:
        return replace(day, reason=f"covers {through.isoformat(timespec='minutes')}")
    reason = f"{day.beyond:,} events beyond its cut, since {day.since.isoformat(timespec='minutes')}"
    return replace(day, state="stale", reason=reason, is_due=True)
