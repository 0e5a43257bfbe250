"""What the commits of a log tell a stream: their rows, the epoch before them, how to know them, what is refused."""

from dataclasses import dataclass
from datetime import datetime

from braid.errors import BraidError
from braid.tables.commits import Commit, Position
from braid.tables.delta_log import Transaction, newest_version, transaction
from speed_layer.jobs.checkpoint import Plan
from speed_layer.stream.counts import rows_in

# Up to this many commits it is worth adding up their rows.
FEW = 20


@dataclass
class LogCommits:
    """The log of a view; the commit that was read last is asked for again and again, and kept."""

    table: str
    read: Transaction | None = None

    def at(self, version: int) -> Transaction | None:
        if self.read is None or self.read.version != version:
            self.read = transaction(self.table, version)
        return self.read

    def arrived(self, start: Position | None, end: Position) -> int | None:
        """How many rows are between two positions; None when it is not worth finding out."""
        if start is None or not (start.is_between_commits and end.is_between_commits):
            return None
        if end.version - start.version > FEW:
            return None
        found = [self.at(version) for version in range(start.version, end.version)]
        commits = [commit for commit in found if commit is not None]
        return rows_in(commits) if len(commits) == len(found) else None

    def epoch_before(self, version: int) -> datetime | None:
        """The newest epoch before a version, looking past the commits of others; None where none is kept."""
        while version > 0:
            version -= 1
            found = self.at(version)
            if found is None:
                break
            if (commit := Commit.from_json(found.metadata)) is not None:
                return commit.epoch
        return None

    def mark_before(self, position: Position) -> str:
        """Which commit was read last, to know it again."""
        if not position.is_between_commits or position.version == 0:
            return ""
        found = self.at(position.version - 1)
        return found.mark if found is not None else ""


def position_of(plan: Plan) -> Position:
    """Where a micro-batch of a query ends."""
    end = plan.ends[0]
    return Position(end["reservoirVersion"], end["index"], end["isStartingVersion"])


def refuse_loss(table: str, view: str, commit: Transaction) -> None:
    if commit.takes_rows:
        raise BraidError(
            f"commit {commit.version} of the log {table} takes rows away, and nobody may: the numbers of view {view!r} "
            f"still have them. `braid kappa replay {view}` builds the view anew from what is left."
        )


def refuse_gap(table: str, view: str, version: int) -> None:
    """Later commits tell one that is gone from one that is still to come."""
    newest = newest_version(table)
    # Looked at once more: it may have come between the two looks.
    if newest is not None and newest >= version and transaction(table, version) is None:
        raise BraidError(
            f"the stream of view {view!r} stopped too long ago: commit {version} of the log {table} is gone, and later "
            f"ones are there (up to {newest}). `braid kappa replay {view}` builds the view anew from the log, which "
            "has every event."
        )
