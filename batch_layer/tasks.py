"""What a run was asked for, the days that follow from it, and what became of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from typing import Literal

from batch_layer.cuts import replay_cut
from batch_layer.plan import ALL, Days, PlannedDay
from braid.cut import effective
from braid.deploy import store as deployment
from braid.deploy.store import Version
from braid.runtime.settings import Settings
from braid.tables.view_tables import ViewTables

# Days are computed together up to so many events: what they share is kept in memory, and on disk beyond it.
MOST_EVENTS = 4_000_000

Outcome = Literal["published", "held", "up to date"]


@dataclass(frozen=True)
class DayResult:
    """What a run did with a day of a view."""

    view: str
    day: date
    outcome: Outcome
    cut: datetime
    reason: str = ""
    events: int = 0
    rows: int = 0
    duplicates: int = 0


@dataclass(frozen=True)
class Asked:
    """What a run was asked for."""

    days: Days = ALL
    cut: datetime | None = None
    stale: bool = False
    force: bool = False

    @property
    def is_explicit(self) -> bool:
        return self.days != ALL

    def wants(self, day: PlannedDay) -> bool:
        if self.stale:
            return day.state == "stale"
        if self.force:
            return True
        return day.is_due or (self.is_explicit and day.state == "held")


def up_to_date(day: PlannedDay) -> DayResult:
    return DayResult(day.view, day.day, "up to date", day.through or day.cut, day.reason, day.events)


@dataclass(frozen=True)
class Task:
    """A day of a view that is to be computed, where it goes, and up to which cut."""

    planned: PlannedDay
    version: Version
    tables: ViewTables
    cut: datetime

    @property
    def day(self) -> date:
        return self.planned.day


def task_of(settings: Settings, planned: PlannedDay) -> Task:
    version = deployment.load(settings, planned.view).active
    assert version is not None
    tables = ViewTables(settings, planned.view, version.number)
    return Task(planned, version, tables, effective(planned.cut, planned.through, replay_cut(tables)))


def chunks(tasks: list[Task]) -> Iterator[list[Task]]:
    """Whole days, oldest first, so many that their events are not too many."""
    chunk: list[Task] = []
    events = 0
    for _, group in groupby(sorted(tasks, key=lambda t: t.day), key=lambda t: t.day):
        of_day = list(group)
        size = max(task.planned.events for task in of_day)
        if chunk and events + size > MOST_EVENTS:
            yield chunk
            chunk, events = [], 0
        chunk += of_day
        events += size
    if chunk:
        yield chunk
