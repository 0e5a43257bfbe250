"""How far a stream is behind its log, read from the log's own commits."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

from braid.tables.commits import Position
from braid.tables.delta_log import Transaction, transactions
from braid.tables.storage import Storage


@dataclass
class Lag:
    """Follows the commits that a stream has not consumed yet."""

    storage: Storage
    table: str
    next_version: int | None = None
    waiting: deque[Transaction] = field(default_factory=deque)

    def beyond(self, position: Position, now: datetime | None = None) -> tuple[int, float] | None:
        """(events, seconds since the oldest of them was committed); None while history is read: nobody counted it."""
        if position.starting:
            return None
        if self.next_version is None:
            self.next_version = position.version
        for commit in transactions(self.storage, self.table, self.next_version):
            self.waiting.append(commit)
            self.next_version = commit.version + 1
        while self.waiting and self.waiting[0].version < position.version:
            self.waiting.popleft()
        behind = [commit for commit in self.waiting if commit.rows != 0]
        if not behind:
            return 0, 0.0
        waited = ((now or datetime.now(UTC)) - behind[0].committed).total_seconds()
        return sum(commit.rows or 0 for commit in behind), max(0.0, waited)
