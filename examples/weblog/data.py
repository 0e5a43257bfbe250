"""The naive answers about requests that `braid produce weblog` makes up."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from braid.produce.record import Record
from examples.stage.naive import (
    Answer,
    Event,
    Windows,
    answer,
    at_rank,
    average,
    daily,
    different,
    sessions,
    sliding,
    total,
)

ZONE = "America/New_York"
BY_DAY = daily(ZONE)
FIVE_MINUTES = sliding(timedelta(minutes=5), timedelta(minutes=1))


def requests(records: Iterable[Record]) -> list[Event]:
    """What is to be counted: each event that can be read, once."""
    found = {record.event.id: record.event for record in records if record.event is not None}
    return [
        event._asdict()
        | {
            "time": datetime.fromtimestamp((event.time_ms or 0) / 1000, UTC),
            "path": (event.url or "").split("?")[0],
            "failed": int((event.status or 0) >= 400),
        }
        for event in found.values()
    ]


def content(events: list[Event], windows: Windows) -> Answer:
    """Pages that were shown: their path ends in .html or .htm, or has no extension."""
    pages = [
        event
        for event in events
        if event["status"] == 200 and _extension(event["path"]) in ("", "html", "htm")
    ]
    return answer(pages, ["path"], windows, {"views": len, "visitors": different("host")})


def visits(events: list[Event]) -> Answer:
    measures = {"requests": len, "bytes": total("bytes"), "p95_bytes": at_rank("bytes", 0.95)}
    return sessions(events, ["host"], timedelta(minutes=30), measures)


def health(events: list[Event], windows: Windows = FIVE_MINUTES) -> Answer:
    measures = {
        "requests": len, "visitors": different("host"), "bytes": total("bytes"), "p95_bytes": at_rank("bytes", 0.95),
        "error_rate": average("failed"),
    }  # fmt: skip
    return answer(events, [], windows, measures)


def _extension(path: str) -> str:
    found = re.search(r"\.([A-Za-z0-9]+)$", path)
    return found[1].lower() if found else ""
