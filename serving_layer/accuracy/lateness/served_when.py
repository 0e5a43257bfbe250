"""When events could first be read in a view: the commit of its tail that brought them, found by their offsets."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from braid.tables.commits import Commit, TailCommit
from braid.tables.delta_log import infos_back
from braid.tables.delta_rs import Pinned

# A commit a second for half a day; what is older is known by its epoch.
MOST_COMMITS = 40_000


@dataclass(frozen=True)
class Brought:
    """What lies before an offset of a partition, and in no earlier commit, could be read from this moment on."""

    partition: int
    before: int
    micros: int


def served_when(log: Pinned, tail: Pinned | None) -> list[Brought]:
    """For logs that are read from Kafka. Nothing for files, which have no offsets that grow."""
    if tail is None:
        return []
    read = sorted(
        (mark.position.version, micros)
        for metadata, micros, _ in _commits(tail)
        if (mark := TailCommit.from_json(metadata)) is not None and not mark.fold and not mark.replaying
    )
    positions = [position for position, _ in read]
    found = []
    for metadata, _, version in _commits(log):
        commit = Commit.from_json(metadata)
        # A position is the version that is read next: the commit was read by the first that is beyond it.
        first = bisect_right(positions, version)
        if commit is not None and not commit.beat and first < len(read):
            found += [Brought(int(partition), end, read[first][1]) for partition, end in commit.end.items()]
    return found


def _commits(table: Pinned) -> Iterator[tuple[str | None, int, int]]:
    """(what the writer said, when in microseconds, version), newest first, as far as they are kept."""
    for version, info in islice(infos_back(table.text, table.version), MOST_COMMITS):
        yield info.get("userMetadata"), int(info.get("timestamp", 0)) * 1_000, version
