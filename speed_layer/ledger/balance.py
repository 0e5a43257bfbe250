"""Conservation, proved: every place that ingest consumed is in the log, or holds a duplicate of what is."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from braid.log.database import Place, opened, sent
from braid.log.table import INBOX_PARTITION, Log
from braid.tables.commits import Commit, Positions, commits
from braid.tables.in_database import version_of
from speed_layer.ingest.origin import offsets
from speed_layer.ledger import evidence, log_places
from speed_layer.ledger.drawn import Violation, drawn_from
from speed_layer.ledger.evidence import Evidence
from speed_layer.ledger.log_places import Consumed

SHOWN = 100_000


@dataclass(frozen=True)
class Account:
    """One partition (or file): what was consumed, and what became of it."""

    partition: int
    start: int
    end: int
    consumed: int
    accepted: int
    rejected: int
    duplicates: int
    markers: int
    unproven: int

    @property
    def balances(self) -> bool:
        became = self.accepted + self.rejected + self.duplicates + self.markers + self.unproven
        return self.consumed == became


@dataclass(frozen=True)
class Ledger:
    """The books of one source."""

    source: str
    accounts: tuple[Account, ...]
    violations: tuple[Violation, ...]
    duplicates_counted: int
    batches_uncounted: int
    waiting: int
    requeued: dict[str, int]
    # Of a derived source: what its events were drawn from, and by whom.
    derived: dict[str, Any] | None = None

    @property
    def balanced(self) -> bool:
        return not self.violations and all(account.balances for account in self.accounts)

    def as_dict(self) -> dict[str, Any]:
        told = asdict(self)
        if self.derived is None:
            del told["derived"]
        return {"balanced": self.balanced} | told


def take_stock(log: Log) -> Ledger:
    """Reads the log, its commits, and the broker or the files, and closes the books."""
    with opened(log) as database:
        # Ingest may be at work: what it says of rows that are not in this version is left for the next time.
        version = version_of(database)
        known = [commit for at, commit in commits(log.table) if at <= version]
        newest = known[0] if known else None
        consumed = {int(p): (newest.start[p], newest.end[p]) for p in newest.end} if newest else {}
        counts = log_places.counts(database)
        holes, repeated = log_places.holes_and_repeats(
            database, consumed if log.source.kafka_topic else None, SHOWN
        )
        if log.source.kafka_topic:
            found = evidence.from_broker(log, database, holes)
            waiting = sum(lag(log, newest).values())
            outside = log_places.outside(database, consumed, SHOWN)
        else:
            consumed, found, waiting = evidence.from_files(log, database)
            outside = frozenset()
    found, unproven = settle(found, newest)
    violations = [
        *_violations("outside", outside, "in the log, but never consumed"),
        *_violations("repeated", repeated, "in the log more than once"),
        *_batches_twice(known),
        *_violations("lost", found.lost, "consumed, but neither in the log nor a duplicate of it"),
        *_violations("gap", found.deleted, "deleted by Kafka's retention before it was read"),
        *_violations(
            "unproven", unproven, "deleted by Kafka since, and a crash took the count of duplicates"
        ),
    ]
    drawn, broken = drawn_from(log)
    accepted, rejected = counts.get(INBOX_PARTITION, (0, 0))
    return Ledger(
        source=log.source.name,
        accounts=_accounts(counts, consumed, found, unproven),
        violations=(*violations, *broken),
        duplicates_counted=newest.duplicates if newest else 0,
        batches_uncounted=uncounted(newest),
        waiting=waiting,
        requeued={"sent": len(sent(log)), "accepted": accepted, "rejected": rejected},
        derived=drawn,
    )


def lag(log: Log, newest: Commit | None) -> Positions:
    """Records that the broker holds and ingest has not read yet, per partition."""
    first, after = offsets(log.source, log.settings)
    done = newest.end if newest else {}
    return {p: max(0, offset - max(done.get(p, 0), first[p])) for p, offset in after.items()}


def uncounted(newest: Commit | None) -> int:
    """Batches whose duplicates the engine could not report: it was killed, or has not reported yet."""
    return 0 if newest is None else newest.uncounted + (not newest.beat)


def settle(found: Evidence, newest: Commit | None) -> tuple[Evidence, frozenset[Place]]:
    """What the broker has deleted since can no longer be looked up: the engine's own count of duplicates decides.

    If that count covers all that is missing, all of it was duplicates. If some batches were never counted, nothing
    is known, and the places are reported as unproven. Otherwise they were deleted before they were read.
    """
    if not found.deleted or newest is None:
        return found, frozenset()
    if newest.duplicates == len(found.duplicates) + len(found.deleted):
        duplicates = found.duplicates | found.deleted
        return Evidence(duplicates, found.lost, frozenset(), found.markers), frozenset()
    if uncounted(newest):
        return Evidence(found.duplicates, found.lost, frozenset(), found.markers), found.deleted
    return found, frozenset()


def ranges(places: frozenset[Place]) -> list[tuple[int, int, int]]:
    """(partition, first, last) of the runs of neighbouring places."""
    found: list[tuple[int, int, int]] = []
    for partition, offset in sorted(places):
        if found and found[-1][0] == partition and found[-1][2] == offset - 1:
            found[-1] = (partition, found[-1][1], offset)
        else:
            found.append((partition, offset, offset))
    return found


def _violations(kind: str, places: frozenset[Place], says: str) -> list[Violation]:
    return [Violation(kind, partition, first, last, says) for partition, first, last in ranges(places)]


def _batches_twice(known: list[Commit]) -> list[Violation]:
    times = Counter((commit.query, commit.batch) for commit in known if not commit.beat)
    return [
        Violation("batch twice", -1, batch, batch, f"batch {batch} of query {query} was committed {n} times")
        for (query, batch), n in times.items()
        if n > 1
    ]


def _accounts(
    counts: Mapping[int, tuple[int, int]], consumed: Consumed, found: Evidence, unproven: frozenset[Place]
) -> tuple[Account, ...]:
    duplicates, markers, unknown = (
        Counter(partition for partition, _ in places)
        for places in (found.duplicates, found.markers, unproven)
    )
    return tuple(
        Account(p, start, end, end - start, *counts.get(p, (0, 0)), duplicates[p], markers[p], unknown[p])
        for p, (start, end) in sorted(consumed.items())
    )
