"""Counts what a source's log holds (accepted, rejected, requeued), without Spark and without its broker."""

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable

from braid.log.table import INBOX_PARTITION, Log
from braid.tables.commits import Commit, commits
from braid.tables.delta_rs import open_table

# Reasons that are shown; a log that rejects for more of them is not helped by a longer list.
REASONS = 20


@dataclass(frozen=True)
class FileCounts:
    """The rows of one file: those that came from the source, and of all the rejected ones why."""

    accepted: int
    rejected: int
    from_inbox: int
    reasons: tuple[tuple[str, int], ...]


class LogLedger:
    """Counts what is new in a log's files at every look."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._counted: dict[str, FileCounts] = {}
        self._lock = threading.Lock()

    def summary(self) -> dict[str, Any]:
        """What was consumed, and what became of it.

        Balanced: true when every place that was consumed is a row or a counted duplicate; null when the log alone
        cannot say (a batch whose duplicates are not counted yet, a broker's own markers): `braid ledger` can.
        """
        table = open_table(self._log.table)
        name = self._log.source.name
        with self._lock:
            files = [] if table is None else self._count(table)
        newest = None if table is None else self._newest_commit(table.version())
        accepted, rejected = sum(file.accepted for file in files), sum(file.rejected for file in files)
        reasons: Counter[str] = Counter()
        for file in files:
            reasons.update(dict(file.reasons))
        places = [] if newest is None or not self._log.source.kafka_topic else sorted(newest.end)
        consumed = sum(newest.end[p] - newest.start[p] for p in places) if newest and places else None
        duplicates = newest.duplicates if newest else 0
        counted = newest is not None and not newest.uncounted and newest.beat
        left = None if consumed is None else consumed - accepted - rejected - duplicates
        return {
            "source": name,
            "epoch": newest and newest.epoch.isoformat(),
            "consumed": consumed,
            "accepted": accepted,
            "rejected": rejected,
            "duplicates": duplicates,
            "requeued": sum(file.from_inbox for file in files),
            "balanced": True if left == 0 else False if left is not None and left < 0 and counted else None,
            "rows": accepted + rejected + sum(file.from_inbox for file in files),
            "partitions": [
                {"partition": p, "start": newest.start[p], "end": newest.end[p]} for p in places if newest
            ],
            "quarantine": [
                {"reason": reason, "events": events} for reason, events in reasons.most_common(REASONS)
            ],
        }

    def _newest_commit(self, version: int) -> Commit | None:
        """What ingest said last, of the version that was counted."""
        return next((commit for at, commit in commits(self._log.table) if at <= version), None)

    def _count(self, table: DeltaTable) -> list[FileCounts]:
        dataset = table.to_pyarrow_dataset()
        present = {part.path: part for part in dataset.get_fragments()}
        for path in present.keys() - self._counted.keys():
            rows = present[path].to_table(columns=["_partition", "_error"], schema=dataset.schema)
            self._counted[path] = _counted(rows)
        self._counted = {path: self._counted[path] for path in present}
        return list(self._counted.values())


def _counted(rows: Any) -> FileCounts:
    inbox = pc.equal(rows["_partition"], INBOX_PARTITION)
    errors = rows["_error"]
    from_source = errors.filter(pc.invert(inbox))
    reasons = pc.value_counts(errors.drop_null().combine_chunks())
    return FileCounts(
        from_source.null_count,
        len(from_source) - from_source.null_count,
        len(errors) - len(from_source),
        tuple((str(pair["values"]), pair["counts"]) for pair in reasons.to_pylist()),
    )
