"""The records of a log that could not be counted, by their reasons, and those that were sent again."""

import json
from typing import Any

from braid.log.database import opened
from braid.log.table import Log
from braid.runtime import documents

Place = tuple[int, int]  # partition, offset
BY_REASON = """
    SELECT _error, count(*) AS records, arg_min(_raw, (_partition, _offset), {examples}),
           min((_partition, _offset), {examples})
    FROM log ANTI JOIN sent ON log._partition = sent.partition AND log._offset = sent.place
    WHERE _error IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1
"""


def sent(log: Log) -> list[Place]:
    """Where each record that was ever put into the inbox came from."""
    texts = (
        documents.read(f"{log.inbox}/{batch}/{file}") or ""
        for batch in _visible(log.inbox)
        for file in _visible(f"{log.inbox}/{batch}")
    )
    records = (json.loads(line) for text in texts for line in text.split("\n") if line)
    return [(record["origin_partition"], record["origin_offset"]) for record in records]


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
