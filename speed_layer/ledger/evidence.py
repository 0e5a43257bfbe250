"""What became of the places that the log lacks, looked up where the records came from.

A record there whose id the log holds is a duplicate; one whose id it does not hold is lost. Spark is asked only for
records that are not written plainly, and for more of them than one process should read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from braid.log.database import Place
from braid.log.table import INBOX_PARTITION, Log
from braid.tables.commits import Positions
from speed_layer.ingest.origin import SilentError, Span, offsets, records_at
from speed_layer.ledger import files, log_places, plain_records
from speed_layer.ledger.log_places import Consumed, Hole

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Records that are looked up without Spark; a broker hands out some ten thousand a second to a client in Python.
MOST = 200_000
# Two holes that are nearer to each other are read in one go.
NEAR = 1_000


@dataclass(frozen=True)
class Evidence:
    """The places that the log lacks, by what was found there: `deleted` is gone from the broker, a `marker` is an
    offset that Kafka itself took (a transaction's end, a compacted record)."""

    duplicates: frozenset[Place]
    lost: frozenset[Place]
    deleted: frozenset[Place] = frozenset()
    markers: frozenset[Place] = frozenset()

    def __or__(self, other: "Evidence") -> "Evidence":
        return Evidence(
            self.duplicates | other.duplicates,
            self.lost | other.lost,
            self.deleted | other.deleted,
            self.markers | other.markers,
        )


def from_broker(log: Log, database: "DuckDBPyConnection", holes: list[Hole]) -> Evidence:
    first, after = offsets(log.source, log.settings)
    spans = to_read(holes, first, after)
    if sum(end - start for runs in spans.values() for start, end in runs) > MOST:
        return _ask_spark(log, holes)
    lacking = frozenset((p, offset) for p, low, high in holes for offset in range(low, high + 1))
    try:
        found = {
            (record.partition, record.offset): (record.value, _moment(record.timestamp))
            for record in records_at(log.source, log.settings, spans)
            if (record.partition, record.offset) in lacking
        }
    except SilentError:
        return _ask_spark(log, holes)
    judged, doubtful = judge(log, database, found)
    rest = lacking - found.keys()
    deleted = frozenset(place for place in rest if place[1] < first.get(str(place[0]), 0))
    told = judged | Evidence(frozenset(), frozenset(), deleted, rest - deleted)
    return told | _ask_spark(log, [(p, offset, offset) for p, offset in doubtful]) if doubtful else told


def from_files(log: Log, database: "DuckDBPyConnection") -> tuple[Consumed, Evidence, int]:
    """Files as they are now against the log: (consumed, evidence, lines of files that the log has never seen)."""
    try:
        in_log = {p: sum(both) for p, both in log_places.counts(database).items() if p != INBOX_PARTITION}
        there = files.listed(log)
        if in_log and there and not in_log.keys() & there.keys():
            # None of them was ever read, or all of them lay elsewhere then.
            return _ask_spark_of_files(log)
        counted: dict[int, int] = {}
        lacking = list(islice(log_places.lacking(database, files.places(there, counted)), MOST + 1))
        if len(lacking) > MOST:
            return _ask_spark_of_files(log)
        now = datetime.now(UTC)
        found = {place: (value, now) for place, value in files.lines_at(there, lacking)}
    except plain_records.DoubtfulError:
        return _ask_spark_of_files(log)
    judged, doubtful = judge(log, database, found)
    if doubtful:
        return _ask_spark_of_files(log)
    return close(in_log, counted, judged.duplicates, judged.lost)


def close(
    in_log: Mapping[int, int], lines: Mapping[int, int], duplicates: frozenset[Place], lost: frozenset[Place]
) -> tuple[Consumed, Evidence, int]:
    """What was consumed of which file, what was found, and how many lines wait to be read."""
    unread = frozenset(place for place in lost if place[0] not in in_log)
    # A file that was removed since can only be counted by what the log holds of it.
    present = {**in_log, **lines}
    consumed = {p: (0, present[p]) for p in {*in_log, *(p for p, _ in duplicates)} - {p for p, _ in unread}}
    return consumed, Evidence(duplicates, lost - unread), len(unread)


def judge(
    log: Log, database: "DuckDBPyConnection", found: Mapping[Place, tuple[bytes | None, datetime]]
) -> tuple[Evidence, frozenset[Place]]:
    """Duplicates and lost ones among records that the log lacks, and the places of which only Spark can say."""
    source, identity = log.source, log.source.event_id
    if identity is None or not found:
        return Evidence(frozenset(), frozenset(found)), frozenset()
    columns = plain_records.ruled(source)
    if not {identity, *columns} <= set(database.sql("SELECT * FROM log LIMIT 0").columns):
        return Evidence(frozenset(), frozenset()), frozenset(found)
    known: dict[Place, tuple[Any, tuple[Any, ...]]] = {}
    for place, (value, arrival) in found.items():
        try:
            event = plain_records.read(source, value or b"", arrival)
        except plain_records.DoubtfulError:
            continue
        known[place] = event[identity], tuple(map(log_places.hashable, (event[name] for name in columns)))
    twins = log_places.accepted_twins(
        database, identity, columns, [one for one, _ in known.values() if one is not None]
    )
    duplicates, lost = set(), set()
    for place, (one, values) in known.items():
        if one is None or one not in twins:
            lost.add(place)
        elif values in twins[one]:
            duplicates.add(place)
    doubtful = found.keys() - duplicates - lost
    return Evidence(frozenset(duplicates), frozenset(lost)), frozenset(doubtful)


def to_read(holes: Iterable[Hole], first: Positions, after: Positions) -> dict[int, list[Span]]:
    """Partition -> the spans of it to read, in order, as far as the broker has them; near ones are one."""
    spans: dict[int, list[Span]] = {}
    for partition, low, high in sorted(holes):
        if str(partition) not in first:
            continue
        start, end = max(low, first[str(partition)]), min(high + 1, after[str(partition)])
        if start >= end:
            continue
        runs = spans.setdefault(partition, [])
        if runs and start - runs[-1][1] < NEAR:
            start = runs.pop()[0]
        runs.append((start, end))
    return spans


def _ask_spark(log: Log, holes: list[Hole]) -> Evidence:
    from speed_layer.ledger import by_spark

    return by_spark.from_broker(log, holes)


def _ask_spark_of_files(log: Log) -> tuple[Consumed, Evidence, int]:
    from speed_layer.ledger import by_spark

    return by_spark.from_files(log)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
