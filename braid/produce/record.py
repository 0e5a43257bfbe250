"""What is sent: a record, and the event inside it that the truth counts."""

from datetime import UTC, datetime
from typing import NamedTuple

EVENT = "event"
LATE = "late event"
DUPLICATE = "duplicate"
FAR_DUPLICATE = "far duplicate"

UNPARSABLE = "unparsable"
WRONG_TYPE = "wrong type"
NO_EVENT_TIME = "no event time"
BROKEN_RULE = "broken rule"
CLOCK = "clock out of range"


class Event(NamedTuple):
    """What ingest is expected to find in an accepted record; `time_ms` is None where only Spark can read the time."""

    id: str
    time_ms: int | None
    host: str | None = None
    url: str | None = None
    status: int | None = None
    bytes: int | None = None


class Record(NamedTuple):
    """One Kafka record. `event` is None where ingest must refuse it, and `reason` then says why.

    `arrived_us` is when it came by the clock of a made-up stream, in microseconds, where that is asked for.
    """

    key: bytes
    value: bytes | None
    kind: str
    event: Event | None = None
    reason: str | None = None
    arrived_us: int | None = None


def arrived(record: Record, text: str, came_ms: float) -> Record:
    """The record with a column that says when it came; one that is sent again says the same again."""
    micros = int(came_ms * 1000)
    came = datetime.fromtimestamp(micros // 1_000_000, UTC).replace(
        tzinfo=None, microsecond=micros % 1_000_000
    )
    value = f'{text[:-1]},"arrived":"{came.isoformat(timespec="microseconds")}Z"}}'
    return record._replace(value=value.encode(), arrived_us=micros)
