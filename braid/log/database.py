"""The log of a source as a table of DuckDB, and where it stands: without Spark, and in bounded memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from braid.cut import last_closed
from braid.log.table import Log, empty
from braid.tables import in_database
from braid.tables.commits import newest_commit

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DAYS = """
    SELECT day, count(*) FILTER (_error IS NULL) AS accepted, count(*) FILTER (_error IS NOT NULL) AS rejected,
           count(DISTINCT _epoch) AS epochs, min(_epoch) AS first_epoch, max(_epoch) AS last_epoch
    FROM log GROUP BY day ORDER BY day
"""


@contextmanager
def opened(log: Log) -> "Iterator[DuckDBPyConnection]":
    """A database with the table `log`, as it is now."""
    with in_database.opened("log", log.table) as database:
        if database is None:
            raise empty(log)
        yield database


def describe(log: Log) -> dict[str, Any]:
    """Days with their rows, epochs and the newest commit, for people who ask where the log stands."""
    with opened(log) as database:
        found = database.sql(DAYS)
        days = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    for day in days:
        day |= {name: f"{day[name]:%Y-%m-%dT%H:%M:%SZ}" for name in ("first_epoch", "last_epoch")}
    newest = newest_commit(log.table)
    return {
        "source": log.source.name,
        "table": log.table,
        "days": days,
        "newest_epoch": newest.epoch.isoformat() if newest else None,
        "last_closed_epoch": last_closed(newest.epoch, log.settings.epoch).isoformat() if newest else None,
        "positions": newest.end if newest else {},
        "unknown_fields": newest.unknown_fields if newest else (),
    }
