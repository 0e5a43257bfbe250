"""The log of a source in DuckDB, without Spark: where it stands, what was rejected, and what was sent again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from braid.cut import last_closed
from braid.log.table import MADE_BY_BATCH, Log, empty
from braid.runtime import documents
from braid.tables import in_database
from braid.tables.commits import newest_commit

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DAYS = """
    SELECT day, count(*) FILTER (_error IS NULL) AS accepted, count(*) FILTER (_error IS NOT NULL) AS rejected,
           count(DISTINCT _epoch) AS epochs, min(_epoch) AS first_epoch, max(_epoch) AS last_epoch
    FROM log GROUP BY day ORDER BY day
"""

Place = tuple[int, int]  # partition, offset
BY_REASON = """
    SELECT _error, count(*) AS records, arg_min(_raw, (_partition, _offset), {examples}),
           min((_partition, _offset), {examples})
    FROM log ANTI JOIN sent ON log._partition = sent.partition AND log._offset = sent.place
    WHERE _error IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1
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


def sent(log: Log) -> list[Place]:
    """Where each record that was ever sent again came from."""
    return [place for place in _origins(log) if place[0] != MADE_BY_BATCH]


def made_by_batch(log: Log) -> int:
    """How many events of a derived source batch has handed in."""
    return sum(place[0] == MADE_BY_BATCH for place in _origins(log))


def _origins(log: Log) -> Iterator[Place]:
    texts = (
        documents.read(f"{log.inbox}/{batch}/{file}") or ""
        for batch in _visible(log.inbox)
        for file in _visible(f"{log.inbox}/{batch}")
    )
    records = (json.loads(line) for text in texts for line in text.split("\n") if line)
    yield from ((record["origin_partition"], record["origin_offset"]) for record in records)


def describe_rejected(log: Log, examples: int = 3) -> list[dict[str, Any]]:
    """Counts by reason of what was not sent again, most frequent first, with a few records of each."""
    places = sent(log)
    with opened(log) as database:
        database.execute("CREATE TABLE sent (partition BIGINT, place BIGINT)")
        columns = [[p for p, _ in places], [place for _, place in places]]
        database.execute("INSERT INTO sent SELECT unnest($1::BIGINT[]), unnest($2::BIGINT[])", columns)
        found = database.sql(BY_REASON.format(examples=max(examples, 1))).fetchall()
    return [
        {
            "reason": reason,
            "records": records,
            "examples": [
                {"partition": partition, "offset": offset, "raw": raw.decode(errors="backslashreplace")}
                for raw, (partition, offset) in list(zip(raws, at, strict=True))[:examples]
            ],
        }
        for reason, records, raws, at in found
    ]


def _visible(folder: str) -> list[str]:
    return [name for name in documents.names(folder) if not name.startswith("_")]
