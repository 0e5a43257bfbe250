"""What came when: the events of each day by the epoch in which they were ingested, read from the log without Spark."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from braid.cut import is_closed, last_closed
from braid.errors import BraidError
from braid.log.table import Log
from braid.tables.commits import newest_commit
from braid.tables.delta_rs import open_table

BY_DAY_AND_EPOCH = """
    SELECT day, _epoch AS epoch,
           count(*) FILTER (_error IS NULL) AS accepted, count(*) FILTER (_error IS NOT NULL) AS rejected
    FROM log GROUP BY ALL
"""


@dataclass(frozen=True)
class Arrived:
    """The records of one day that were ingested in one epoch; a rejected one is of the day on which it arrived."""

    day: date
    epoch: datetime
    accepted: int
    rejected: int


@dataclass(frozen=True)
class Arrivals:
    """All that a log holds, counted."""

    rows: tuple[Arrived, ...]

    @classmethod
    def of(cls, log: Log) -> "Arrivals":
        """Reads two columns of the log; a log that is not there yet holds nothing."""
        import duckdb

        table = open_table(log.table)
        if table is None:
            return cls(())
        with duckdb.connect() as connection:
            connection.sql("SET TimeZone = 'UTC'")
            connection.register("log", table.to_pyarrow_dataset())
            found = connection.sql(BY_DAY_AND_EPOCH).fetchall()
        return cls(tuple(sorted((Arrived(*row) for row in found), key=lambda row: (row.day, row.epoch))))

    @property
    def days(self) -> tuple[date, ...]:
        """The days that have events."""
        return tuple(sorted({row.day for row in self.rows if row.accepted}))

    def events(self, day: date, through: datetime) -> int:
        """How many events of a day had come up to a cut."""
        return sum(row.accepted for row in self._of(day) if row.epoch <= through)

    def beyond(self, day: date, after: datetime, through: datetime) -> tuple[int, datetime | None]:
        """How many events of a day came after one cut and up to another, and since when."""
        late = [row for row in self._of(day) if row.accepted and after < row.epoch <= through]
        return sum(row.accepted for row in late), min((row.epoch for row in late), default=None)

    def rejected_with(self, day: date, through: datetime) -> float:
        """The rejected records that came along with a day's events.

        A rejected record's clock is not believed, so nobody knows its day. Those of an epoch are shared out between
        the days of which events came in the same epoch, by the number of these events; in an epoch without any they
        are of the day on which they arrived.
        """
        accepted, rejected = self._epochs
        own = {row.epoch: row.accepted for row in self._of(day) if row.epoch <= through}
        shared = sum(rejected[epoch] * own[epoch] / accepted[epoch] for epoch in own if accepted[epoch])
        alone = sum(row.rejected for row in self._of(day) if row.epoch <= through and not accepted[row.epoch])
        return shared + alone

    def trailing(self, day: date, through: datetime, most: int) -> tuple[int, ...]:
        """The events of the days before, oldest first; days without any are left out."""
        days = (day - timedelta(days=back) for back in range(most, 0, -1))
        return tuple(events for before in days if (events := self.events(before, through)))

    @property
    def _epochs(self) -> tuple[dict[datetime, int], dict[datetime, int]]:
        return _added((row.epoch, row.accepted) for row in self.rows), _added(
            (row.epoch, row.rejected) for row in self.rows
        )

    def _of(self, day: date) -> list[Arrived]:
        return [row for row in self.rows if row.day == day]


def _added(pairs: Iterable[tuple[datetime, int]]) -> dict[datetime, int]:
    totals: dict[datetime, int] = {}
    for key, number in pairs:
        totals[key] = totals.get(key, 0) + number
    return totals


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
