"""Common Log Format: a line of a web server's log as a record of requests."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from braid.produce.files import UNREADABLE_LINE, decode, numbered_lines, require_file, to_json
from braid.produce.record import EVENT, UNPARSABLE, Event, Record

# host, identity, user, [time], "request", status and bytes, the whole line and nothing else. A line that was
# wrapped matches in neither half, except where the break is inside the host: the rest is then a whole line.
_LINE = re.compile(
    rb"(?P<host>\S+) \S+ \S+ "
    rb"\[(?P<day>\d\d)/(?P<month>[A-Z][a-z]{2})/(?P<year>\d{4}):(?P<clock>\d\d:\d\d:\d\d) (?P<zone>[+-]\d{4})\] "
    rb'"(?P<request>.*)" (?P<status>\d{3}) (?P<bytes>\d+|-)'
)
# Names, not the locale's: a log is written in English wherever it is read.
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def replay_clf(path: Path) -> Iterator[Record]:
    """Every line: a well-formed one as JSON, any other one as it is, for the quarantine."""
    require_file(path)
    return _records(path)


def _records(path: Path) -> Iterator[Record]:
    for number, line in numbered_lines(path):
        event_id = f"{path.name}:{number}"
        parsed = parse_line(line, event_id)
        if parsed is None:
            yield Record(event_id.encode(), line, UNREADABLE_LINE, None, UNPARSABLE)
        else:
            event, moment = parsed
            fields = {
                "id": event.id,
                "time": moment.isoformat(),
                "host": event.host,
                "url": event.url,
                "status": event.status,
                "bytes": event.bytes,
            }
            yield Record(event_id.encode(), to_json(fields).encode(), EVENT, event)


def parse_line(line: bytes, event_id: str) -> tuple[Event, datetime] | None:
    """The request and its time with the offset of the log, or None where the line is not one."""
    found = _LINE.fullmatch(line)
    moment = _moment(found) if found else None
    if found is None or moment is None:
        return None
    size = None if found["bytes"] == b"-" else int(found["bytes"])
    event = Event(
        id=event_id,
        time_ms=int(moment.timestamp()) * 1000,
        host=decode(found["host"]),
        url=_url(decode(found["request"])),
        status=int(found["status"]),
        bytes=size,
    )
    return event, moment


def _moment(found: re.Match[bytes]) -> datetime | None:
    zone = found["zone"].decode()
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:]))
    hour, minute, second = map(int, found["clock"].split(b":"))
    try:
        month = _MONTHS.index(found["month"].decode()) + 1
        at = timezone(-offset if zone[0] == "-" else offset)
        return datetime(int(found["year"]), month, int(found["day"]), hour, minute, second, tzinfo=at)
    except ValueError:
        return None


def _url(request: str) -> str:
    """`GET /path HTTP/1.0` -> `/path`. Clients leave the version out, put blanks in the path, or send rubbish."""
    method, _, rest = request.partition(" ")
    if not rest:
        return method
    path, _, version = rest.rpartition(" ")
    return path if path and version.startswith("HTTP/") else rest
