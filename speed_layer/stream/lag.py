"""How far a stream is behind its log, in events and in seconds."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

from braid.tables.commits import Position
from braid.tables.delta_log import Transaction, transactions


@dataclass
class Lag:
    """How far a stream is behind its log: follows the commits that it has not consumed yet."""

    table: str
    next_version: int | None = None
    waiting: deque[Transaction] = field(default_factory=deque)

    def beyond(self, position: Position, now: datetime | None = None) -> tuple[int, float] | None:
        """(events, seconds since the oldest of them was committed); None while history is read: nobody counted it."""
        if position.starting:
            return None
        if self.next_version is None:
            self.next_version = position.version
        for commit in transactions(self.table, self.next_version):
            self.waiting.append(commit)
            self.next_version = commit.version + 1
        while self.waiting and self.waiting[0].version < position.version:
            self.waiting.popleft()
        behind = [commit for commit in self.waiting if commit.rows != 0]
        if not behind:
            return 0, 0.0
        waited = ((now or datetime.now(UTC)) - behind[0].committed).total_seconds()
        return sum(commit.rows or 0 for commit in behind), max(0.0, waited)
