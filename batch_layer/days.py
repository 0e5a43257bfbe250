"""What is known of a view's day beside its numbers: how its last run went, whether a gate holds it, who released it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from typing import Any

from batch_layer.gates.values import Verdict
from braid.runtime.settings import Settings
from braid.tables.view_tables import Notes, ViewTables, day_notes


@dataclass(frozen=True)
class Accuracy:
    """What was served before a publish against what was published, at the same cut, group by group."""

    groups: int
    equal: int
    largest_error: float

    @property
    def share(self) -> float:
        return self.equal / self.groups if self.groups else 1.0


@dataclass(frozen=True)
class Release:
    """A person's word that a held day is right as it is, up to a cut."""

    because: str
    at: datetime
    cut: datetime


@dataclass(frozen=True)
class Gate:
    """What the expectations said of a day at a cut, and whether a person overruled them."""

    cut: datetime
    verdict: Verdict
    released: Release | None = None

    @property
    def holds(self) -> bool:
        return not self.verdict.passed and not self.is_released

    @property
    def is_released(self) -> bool:
        return self.released is not None and self.released.cut >= self.cut


@dataclass(frozen=True)
class Publish:
    """A day that was published: from which cut, of how many events, in how many rows."""

    cut: datetime
    at: datetime
    events: int
    rows: int
    duplicates: int
    totals: Mapping[str, float] = field(default_factory=dict)
    accuracy: Accuracy | None = None
    lookups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DayRecord:
    """A day of one version of a view: its last publish, and what the gate said last."""

    day: date
    publish: Publish | None = None
    gate: Gate | None = None

    @property
    def held(self) -> Gate | None:
        """The gate that holds a newer state of the day than the one that is published."""
        gate = self.gate
        if gate is None or not gate.holds:
            return None
        return gate if self.publish is None or gate.cut > self.publish.cut else None


def read_days(tables: ViewTables) -> dict[date, DayRecord]:
    """All days of which something is known."""
    return {day: _record(day, note) for day, note in day_notes(tables).read().items()}


def read_day(tables: ViewTables, day: date) -> DayRecord:
    return read_days(tables).get(day, DayRecord(day))


def write_days(tables: ViewTables, records: Iterable[DayRecord]) -> None:
    day_notes(tables).write({record.day: asdict(record) for record in records})


def read_gates(settings: Settings, source: str) -> dict[date, Gate]:
    """What the input gate of a source said last of each day."""
    return {day: _gate(note) for day, note in _gate_notes(settings, source).read().items()}


def write_gates(settings: Settings, source: str, gates: Mapping[date, Gate]) -> None:
    _gate_notes(settings, source).write({day: asdict(gate) for day, gate in gates.items()})


def judged(last: Gate | None, cut: datetime, verdict: Verdict, before: Gate | None = None) -> Gate:
    """The newest verdict, after that of a gate before it; a release counts for the cuts that the person saw."""
    checks = (*before.verdict.checks, *verdict.checks) if before is not None else verdict.checks
    said = [gate.released for gate in (last, before) if gate is not None and gate.released is not None]
    return Gate(cut, Verdict(checks), max(said, key=lambda release: release.cut, default=None))


def released(gate: Gate, because: str, at: datetime) -> Gate:
    return replace(gate, released=Release(because, at, gate.cut))


def _gate_notes(settings: Settings, source: str) -> Notes:
    return Notes(settings.location("batch", "gates", source))


def _record(day: date, parts: Mapping[str, Any]) -> DayRecord:
    publish, gate = parts["publish"], parts["gate"]
    return DayRecord(
        day, None if publish is None else _publish(publish), None if gate is None else _gate(gate)
    )


def _publish(parts: Mapping[str, Any]) -> Publish:
    accuracy = parts["accuracy"]
    times = {name: datetime.fromisoformat(parts[name]) for name in ("cut", "at")}
    return Publish(**{**parts, **times, "accuracy": Accuracy(**accuracy) if accuracy else None})


def _gate(parts: Mapping[str, Any]) -> Gate:
    release = parts["released"]
    return Gate(
        datetime.fromisoformat(parts["cut"]),
        Verdict.from_json(parts["verdict"]),
        None
        if release is None
        else Release(
            release["because"], datetime.fromisoformat(release["at"]), datetime.fromisoformat(release["cut"])
        ),
    )
