"""Which days of a view can be compared, each up to which cut, and from which side of it the events are served."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

from braid.deploy.versions import Version
from braid.errors import NotYet
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.commits import TailCommit
from braid.tables.delta_rs import Pinned, open_table, pin
from braid.tables.published import published_cuts
from braid.tables.view_tables import ViewTables
from serving_layer.accuracy.lateness.event_times import Span, is_between


@dataclass(frozen=True)
class ComparedDay:
    """A day: the cut at which it is compared, and what its base covers.

    `deduplicated` is the cut up to which the batch layer published it, None where only the stream has counted;
    `in_tail` says that the stream's own rows of it are all still there.
    """

    day: date
    cut: datetime
    through: datetime | None = None
    deduplicated: datetime | None = None
    in_tail: bool = True


@dataclass(frozen=True)
class ComparedDays:
    """One version of a view, as far as it can be compared: its tables at one moment, whoever writes meanwhile.

    `limit` is the last epoch that is taken from the tail, and `skipped` says which days cannot be compared, and why.
    """

    version: Version
    tables: ViewTables
    tail_version: int | None
    base_version: int | None
    days: tuple[ComparedDay, ...]
    mark: TailCommit | None
    limit: datetime | None
    skipped: Mapping[date, str]

    @property
    def cuts(self) -> dict[datetime, list[date]]:
        """Days by their cut: usually there is one."""
        found: dict[datetime, list[date]] = {}
        for one in self.days:
            found.setdefault(one.cut, []).append(one.day)
        return found

    @property
    def newest_cut(self) -> datetime:
        return max(one.cut for one in self.days)

    @property
    def span(self) -> Span:
        return Span(self.newest_cut, self.days[0].day, self.days[-1].day)

    def stream_alone(self) -> "ComparedDays | None":
        """The published days of which the tail still holds everything, as if nothing had been published."""
        if self.limit is None:
            return None
        days = tuple(
            ComparedDay(one.day, self.limit)
            for one in self.days
            if one.deduplicated is not None and one.in_tail
        )
        return replace(self, days=days) if days else None


def days_to_compare(
    settings: Settings,
    version: Version,
    cut: datetime | None = None,
    first: date | None = None,
    last: date | None = None,
) -> ComparedDays:
    """A base cannot be read before its own cut, and a tail not beyond what its stream has read completely."""
    tables = ViewTables(settings, version.view.name, version.number)
    # The tail first: a base that is pinned later covers at least what this tail has lost.
    tail, base = pinned_table(tables.tail), pinned_table(tables.base)
    mark = tail.mark() if tail is not None else None
    complete = mark.complete if mark is not None and not mark.replaying else None
    limit = complete if cut is None or complete is None else min(cut, complete)
    throughs = base.throughs() if base is not None else {}
    published = published_cuts(tables)
    collected = _collected(tables, mark)
    begin = max((day for day in (first, version.from_day) if day is not None), default=None)
    found, skipped = [], {}
    for day in sorted(_days(Log(version.view.source, settings)) | set(throughs)):
        if not is_between(day, begin, last):
            continue
        through = throughs.get(day)
        cuts = [moment for moment in (limit, through) if moment is not None]
        if not cuts:
            skipped[day] = "it is not published, and no stream has read its log yet"
            continue
        by_batch = through if through is not None and published.get(day) == through else None
        found.append(ComparedDay(day, max(cuts), through, by_batch, day not in collected))
    if not found:
        name = version.view.name
        raise NotYet(
            f"view {name!r} has no day that can be compared: run `braid stream {name} --once`, or publish days with "
            "`braid batch run`."
        )
    pins = [None if table is None else table.version for table in (tail, base)]
    return ComparedDays(version, tables, pins[0], pins[1], tuple(found), mark, limit, skipped)


def _collected(tables: ViewTables, mark: TailCommit | None) -> set[date]:
    """The days whose rows the stream has taken out of its tail, because a base covered them."""
    if mark is None or mark.collected < 1:
        return set()
    base = open_table(tables.base, version=mark.collected)
    return set() if base is None else set(pin(base).throughs())


def _days(log: Log) -> set[date]:
    table = open_table(log.table)
    return {day for day, _ in pin(table).parts()} if table is not None else set()


def pinned_table(location: str) -> Pinned | None:
    table = open_table(location)
    return None if table is None else pin(table)
