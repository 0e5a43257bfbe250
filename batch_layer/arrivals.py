"""What came when, by the day and the epoch of its ingest, without Spark; and the cut that a run may take of it."""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from itertools import accumulate, groupby
from urllib.parse import quote

from braid.cut import common, is_closed, last_closed
from braid.define.source import Source
from braid.errors import BraidError, NotYet
from braid.log.table import Log
from braid.runtime import documents
from braid.runtime.settings import Settings
from braid.tables.commits import newest_commit
from braid.tables.view_tables import ViewTables

BY_DAY_AND_EPOCH = """
    SELECT day, _epoch AS epoch,
           count(*) FILTER (_error IS NULL) AS accepted, count(*) FILTER (_error IS NOT NULL) AS rejected
    FROM log GROUP BY ALL
"""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The records of one day that were ingested in one epoch; a rejected one is of the day on which it arrived."""

    day: date
    epoch: datetime
    accepted: int
    rejected: int


@dataclass(frozen=True)
class Arrivals:
    """All that a log holds, counted. A question about a day costs what that day has, however many there are."""

    rows: tuple[Arrival, ...]

    @classmethod
    def of(cls, log: Log) -> "Arrivals":
        """Reads two columns of the log; a log that is not there yet holds nothing."""
        # Here: who asks for a cut, as a sensor does every minute, needs none of it, and it takes a while to load.
        from braid.tables.in_database import opened

        with opened("log", log.table) as database:
            found = [] if database is None else database.sql(BY_DAY_AND_EPOCH).fetchall()
        return cls(tuple(Arrival(*row) for row in found))

    @property
    def days(self) -> tuple[date, ...]:
        """The days that have events."""
        return tuple(sorted(day for day, counted in self._by_day.items() if counted.upto[-1]))

    def events(self, day: date, through: datetime) -> int:
        """How many events of a day had come up to a cut."""
        counted = self._by_day.get(day)
        return 0 if counted is None else counted.upto[bisect_right(counted.epochs, through)]

    def beyond(self, day: date, after: datetime, through: datetime) -> tuple[int, datetime | None]:
        """How many events of a day came after one cut and up to another, and since when."""
        late = [row for row in self._rows(day, after, through) if row.accepted]
        return sum(row.accepted for row in late), late[0].epoch if late else None

    def rejected_with(self, day: date, through: datetime) -> float:
        """The rejected records that came along with a day's events.

        A rejected record's clock is not believed, so nobody knows its day. Those of an epoch are shared out between
        the days of which events came in the same epoch, by the number of these events; in an epoch without any they
        are of the day on which they arrived.
        """
        accepted, rejected = self._epochs
        shares = (
            rejected[row.epoch] * row.accepted / accepted[row.epoch] if accepted[row.epoch] else row.rejected
            for row in self._rows(day, None, through)
        )
        return float(sum(shares))

    def trailing(self, day: date, through: datetime, most: int) -> tuple[int, ...]:
        """The events of the days before, oldest first; days without any are left out."""
        days = (day - timedelta(days=back) for back in range(most, 0, -1))
        return tuple(events for before in days if (events := self.events(before, through)))

    def _rows(self, day: date, after: datetime | None, through: datetime) -> Sequence[Arrival]:
        counted = self._by_day.get(day)
        if counted is None:
            return ()
        first = 0 if after is None else bisect_right(counted.epochs, after)
        return counted.rows[first : bisect_right(counted.epochs, through)]

    @cached_property
    def _epochs(self) -> tuple[dict[datetime, int], dict[datetime, int]]:
        """Epoch -> its accepted records, and its rejected ones."""
        accepted: dict[datetime, int] = defaultdict(int)
        rejected: dict[datetime, int] = defaultdict(int)
        for row in self.rows:
            accepted[row.epoch] += row.accepted
            rejected[row.epoch] += row.rejected
        return accepted, rejected

    @cached_property
    def _by_day(self) -> "dict[date, _CountedDay]":
        ordered = sorted(self.rows, key=lambda row: (row.day, row.epoch))
        return {day: _CountedDay.of(list(rows)) for day, rows in groupby(ordered, key=lambda row: row.day)}


@dataclass(frozen=True)
class _CountedDay:
    """A day's arrivals in the order of their epochs; `upto[n]` are the events of its first n epochs."""

    rows: list[Arrival]
    epochs: list[datetime]
    upto: list[int]

    @classmethod
    def of(cls, rows: list[Arrival]) -> "_CountedDay":
        upto = list(accumulate((row.accepted for row in rows), initial=0))
        return cls(rows, [row.epoch for row in rows], upto)


def closed_epoch(log: Log) -> datetime | None:
    """The last epoch of a log that can gain no more rows; None when nothing was ever ingested.

    A log whose commits were cleaned up has rested since: all its rows can be cut, and ingest goes on after them.
    """
    newest = newest_commit(log.table)
    if newest is not None:
        return last_closed(newest.epoch, log.settings.epoch)
    return max((row.epoch for row in Arrivals.of(log).rows), default=None)


def require_closed(log: Log, cut: datetime) -> datetime:
    """A cut may be published only once its epoch can gain no more rows."""
    closed = closed_epoch(log)
    if closed is None:
        raise BraidError(
            f"the log of source {log.source.name!r} is empty: run `braid ingest {log.source.name}` first."
        )
    if not is_closed(cut, closed):
        raise BraidError(
            f"the cut {cut.isoformat()} is not closed in the log of source {log.source.name!r}, which is closed up to "
            f"{closed.isoformat()}: events of it may still come. Wait until ingest is past it, or take an earlier cut."
        )
    return cut


def closed_in_all(settings: Settings, sources: Iterable[Source]) -> datetime:
    """The last epoch that is closed in every log."""
    closed_upto = []
    for source in sources:
        closed = closed_epoch(Log(source, settings))
        if closed is None:
            raise NotYet(
                f"the log of source {source.name!r} is empty, so there is no cut yet: run `braid ingest {source.name}`."
            )
        closed_upto.append(closed)
    cut = common(closed_upto)
    if cut is None:
        raise BraidError(
            "there is no source to take a cut of: define one in the module that BRAID_DEFINITIONS names."
        )
    return cut


def cut_after(settings: Settings, sources: Iterable[Source], day: date) -> datetime:
    """The common cut, which must not be before the end of a day in any source's zone."""
    sources = tuple(sources)
    cut = closed_in_all(settings, sources)
    for source in sources:
        end = end_of(day, source)
        if cut + settings.epoch < end:
            raise NotYet(
                f"the day {day} of source {source.name!r} ends at {end.isoformat()}, and the log is closed up to "
                f"{(cut + settings.epoch).isoformat()}: wait until ingest is past the end of the day."
            )
    return cut


def pinned(settings: Settings, run: str, cut: datetime | None) -> datetime | None:
    """The cut of a run: the one that it was given first. None when it has none yet and none is given."""
    uri = settings.location("batch", "cuts", f"{quote(run, safe='')}.json")
    text = documents.read(uri)
    if text is not None:
        return datetime.fromisoformat(json.loads(text)["cut"])
    if cut is not None:
        documents.write(uri, json.dumps({"run": run, "cut": cut.isoformat()}) + "\n")
    return cut


def throughs(tables: ViewTables) -> dict[date, datetime]:
    """Day -> the last epoch that its published states cover, without Spark."""
    from braid.tables.in_database import opened

    with opened("base", tables.base) as database:
        if database is None:
            return {}
        rows = database.sql("SELECT day, max(through) FROM base GROUP BY day").fetchall()
    return {day: through.astimezone(UTC) for day, through in rows}


def end_of(day: date, source: Source) -> datetime:
    """The moment at which a day ends where the source is."""
    return datetime.combine(day + timedelta(days=1), time(), tzinfo=source.zone)
