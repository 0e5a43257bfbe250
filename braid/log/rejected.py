"""The records of a log that could not be counted, by their reasons, and those that were sent again."""

import json
from collections.abc import Iterator
from typing import Any

from braid.log.database import opened
from braid.log.table import MADE_BY_BATCH, Log
from braid.runtime import documents

Place = tuple[int, int]  # partition, offset
BY_REASON = """
    SELECT _error, count(*) AS records, arg_min(_raw, (_partition, _offset), {examples}),
           min((_partition, _offset), {examples})
    FROM log ANTI JOIN sent ON log._partition = sent.partition AND log._offset = sent.place
    WHERE _error IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1
"""


def sent(log: Log) -> list[Place]:
    """Where each record that was ever sent again came from."""
    return [place for place in _origins(log) if place[0] != MADE_BY_BATCH]


def made_by_batch(log: Log) -> int:
    """How many events of a derived source batch has handed in."""
    return sum(place[0] == MADE_BY_BATCH for place in _origins(log))


def _origins(log: Log) -> Iterator[Place]:
    for batch in _visible(log.inbox):
        for file in _visible(f"{log.inbox}/{batch}"):
            text = documents.read(f"{log.inbox}/{batch}/{file}") or ""
            records = (json.loads(line) for line in text.split("\n") if line)
            yield from ((record["origin_partition"], record["origin_offset"]) for record in records)


def describe(log: Log, examples: int = 3) -> list[dict[str, Any]]:
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
