"""What a run was asked for, the days that follow from it, and what became of them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Literal

from batch_layer.plan import ALL, Days, PlannedDay, plan
from braid.cut import effective
from braid.define.fingerprint import used_lookups
from braid.define.view import View
from braid.deploy import store as deployment
from braid.deploy.versions import Version
from braid.runtime.settings import Settings
from braid.tables.tail_and_base import replay_cut
from braid.tables.view_tables import ViewTables

# Days are computed together up to so many events. What they share is kept in Spark's memory, and on disk beyond it, so
# that a driver's memory bounds it whatever the events look like.
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
class ViewDays:
    """Days of a view that are to be computed, where they go, and each one's cut."""

    version: Version
    tables: ViewTables
    planned: Mapping[date, PlannedDay]
    cuts: Mapping[date, datetime]

    @property
    def view(self) -> View:
        """The deployed definition."""
        return self.version.view

    @property
    def latest(self) -> datetime:
        return max(self.cuts.values())

    def only(self, days: Collection[date]) -> "ViewDays":
        return replace(
            self,
            planned={day: one for day, one in self.planned.items() if day in days},
            cuts={day: cut for day, cut in self.cuts.items() if day in days},
        )

    def by_lookups(self) -> "list[ViewDays]":
        """Apart where lookups may differ: they are read as they were at a cut. Without lookups, all in one."""
        if not used_lookups(self.view):
            return [self]
        days: dict[datetime, list[date]] = {}
        for day, cut in self.cuts.items():
            days.setdefault(cut, []).append(day)
        return [self.only(days[cut]) for cut in sorted(days)]


def view_days(settings: Settings, planned: Sequence[PlannedDay]) -> list[ViewDays]:
    """The days of a plan, gathered by view."""
    names = dict.fromkeys(day.view for day in planned)
    return [_days_of(settings, name, [day for day in planned if day.view == name]) for name in names]


def _days_of(settings: Settings, name: str, planned: Sequence[PlannedDay]) -> ViewDays:
    version = deployment.load(settings, name).active
    assert version is not None
    tables = ViewTables.of(settings, version)
    replayed = replay_cut(tables)
    cuts = {day.day: effective(day.cut, day.through, replayed) for day in planned}
    return ViewDays(version, tables, {day.day: day for day in planned}, cuts)


def chunks(views: Sequence[ViewDays]) -> Iterator[list[date]]:
    """The days of views in portions that are computed together."""
    return packed(_sizes(day for view in views for day in view.planned.values()))


def packed(sizes: Mapping[date, int], most_days: int | None = None) -> Iterator[list[date]]:
    """Days, oldest first, so many that their events are not too many; a day that is too large goes alone."""
    chunk: list[date] = []
    events = 0
    for day in sorted(sizes):
        if chunk and (events + sizes[day] > MOST_EVENTS or len(chunk) == most_days):
            yield chunk
            chunk, events = [], 0
        chunk.append(day)
        events += sizes[day]
    if chunk:
        yield chunk


def ranges(
    settings: Settings, views: Sequence[View], days: Days, cut: datetime, most_days: int | None = None
) -> list[tuple[date, date]]:
    """The first and the last day of each portion of a range, for those who start one run for each."""
    sources = plan(settings, views, days, cut)
    sizes = _sizes(day for source in sources for day in source.days)
    return [(chunk[0], chunk[-1]) for chunk in packed(sizes, most_days)]


def _sizes(planned: Iterable[PlannedDay]) -> dict[date, int]:
    """Day -> its events, which its views share; of several sources the most: they are not computed together."""
    sizes: dict[date, int] = {}
    for day in planned:
        sizes[day.day] = max(sizes.get(day.day, 0), day.events)
    return sizes
