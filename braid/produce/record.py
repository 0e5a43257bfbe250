"""What is sent: a record, and the event in it that ingest should find and the truth counts."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from braid.define.schema import FLOATS, INTEGERS, is_decimal
from braid.define.source import EPOCH_FORMATS, Source
from braid.produce.files import Raw

EVENT = "event"
LATE = "late event"
DUPLICATE = "duplicate"
FAR_DUPLICATE = "far duplicate"

UNPARSABLE = "unparsable"
WRONG_TYPE = "wrong type"
NO_EVENT_TIME = "no event time"
BROKEN_RULE = "broken rule"
CLOCK = "clock out of range"

_YEAR_9000_MS = 221_845_392_000_000


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


def expected(
    fields: Mapping[str, Any], event_id: str, source: Source | None, now: datetime
) -> tuple[Event | None, str | None]:
    """The event of an accepted row, or the reason for which it is refused; without a source nothing is refused."""
    column = source.event_time if source else "time"
    try:
        moment = time_ms(fields.get(column), source.time_format if source else None)
        readable = True
    except (ValueError, OverflowError, TypeError):
        moment, readable = None, False
    reason = None
    if source is not None:
        if not readable or not all(_fits(fields.get(name), kind) for name, kind in source.columns.items()):
            reason = WRONG_TYPE
        elif fields.get(column) is None:
            reason = NO_EVENT_TIME
        elif moment is not None and not _believed(moment, source, now):
            reason = CLOCK
    elif moment is not None and not 0 <= moment < _YEAR_9000_MS:
        # Nobody said which clocks are believed; the calendar has to end somewhere.
        moment = None
    return (_event(fields, event_id, moment), None) if reason is None else (None, reason)


def time_ms(value: Any, time_format: str | None) -> int | None:
    """Milliseconds since 1970. None where it is absent, or written in a pattern that only Spark can read."""
    if value is None or (time_format is not None and time_format not in EPOCH_FORMATS):
        return None
    if time_format is not None:
        return int(float(value) * (1000 if time_format == "epoch_seconds" else 1))
    moment = datetime.fromisoformat(str(value))
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _fits(value: Any, type_name: str) -> bool:
    """Numbers and booleans only: texts and times are judged where they are read."""
    if value is None:
        return True
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if type_name in INTEGERS:
        return isinstance(value, Raw) or is_integer
    if type_name in FLOATS or is_decimal(type_name):
        return isinstance(value, Raw | float) or is_integer
    if type_name == "boolean":
        return isinstance(value, Raw | bool)
    return True


def _believed(moment: int, source: Source, now: datetime) -> bool:
    return source.earliest.timestamp() * 1000 <= moment <= (now + source.ahead).timestamp() * 1000


def _event(fields: Mapping[str, Any], event_id: str, moment: int | None) -> Event:
    host, url = fields.get("host"), fields.get("url")
    return Event(
        event_id,
        moment,
        None if host is None else str(host),
        None if url is None else str(url),
        _whole(fields.get("status")),
        _whole(fields.get("bytes")),
    )


def _whole(value: Any) -> int | None:
    """Other files use these names for other things: only whole numbers are a status or a size."""
    try:
        return None if value is None or isinstance(value, bool | float) else int(value)
    except (TypeError, ValueError):
        return None
