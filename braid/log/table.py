"""Where the log of a source lives: the Delta table that holds every event, and what belongs to it."""

from dataclasses import dataclass

from braid.define.source import Source
from braid.errors import BraidError
from braid.runtime.settings import Settings

# Records that were rejected once and came back by the inbox: their places are those of an earlier row.
INBOX_PARTITION = -1
# In an inbox, the origin of what was no record before: batch has made it, for a derived source.
MADE_BY_BATCH = -2


@dataclass(frozen=True)
class Log:
    """Where the log of a source and what belongs to it live."""

    source: Source
    settings: Settings

    @property
    def table(self) -> str:
        return self.settings.location("log", self.source.name)

    @property
    def checkpoint(self) -> str:
        return self.settings.location("checkpoints", "ingest", self.source.name)

    @property
    def inbox(self) -> str:
        """Where records wait that were rejected once and are to be ingested again."""
        return self.settings.location("inbox", self.source.name)


def empty(log: Log) -> BraidError:
    """What is said to whoever reads a log that is not there yet."""
    name = log.source.name
    return BraidError(f"the log of source {name!r} is empty: run `braid ingest {name}` first.")
