"""weblog: batch's question and streaming's question from one source, and a rate that merges.

The naive answers about requests that `braid produce weblog` makes up.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from braid.examples.stage.checks import Played, Shown, against_truth, equal
from braid.examples.stage.naive import (
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
from braid.examples.stage.stage import Stage
from braid.examples.weblog.website import daily_pages, health, trending, visits
from braid.produce.record import Record
from braid.produce.weblog import Weblog, weblog

NASTY = Weblog(events=3000, days=2, seed=1, late=0.2, duplicates=0.05, malformed=0.03, out_of_order=0.1)
SHOWN = 8
ZONE = "America/New_York"
BY_DAY = daily(ZONE)
FIVE_MINUTES = sliding(timedelta(minutes=5), timedelta(minutes=1))


def readable(records: Iterable[Record]) -> list[Event]:
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


def true_content(events: list[Event], windows: Windows) -> Answer:
    """Pages that were shown: their path ends in .html or .htm, or has no extension."""
    pages = [
        event
        for event in events
        if event["status"] == 200 and _extension(event["path"]) in ("", "html", "htm")
    ]
    return answer(pages, ["path"], windows, {"views": len, "visitors": different("host")})


def true_visits(events: list[Event]) -> Answer:
    measures = {"requests": len, "bytes": total("bytes"), "p95_bytes": at_rank("bytes", 0.95)}
    return sessions(events, ["host"], timedelta(minutes=30), measures)


def true_health(events: list[Event], windows: Windows = FIVE_MINUTES) -> Answer:
    measures = {
        "requests": len, "visitors": different("host"), "bytes": total("bytes"), "p95_bytes": at_rank("bytes", 0.95),
        "error_rate": average("failed"),
    }  # fmt: skip
    return answer(events, [], windows, measures)


def _extension(path: str) -> str:
    found = re.search(r"\.([A-Za-z0-9]+)$", path)
    return found[1].lower() if found else ""


def play(stage: Stage) -> Played:
    stage.set(daily_pages, trending, visits, health)
    records = list(weblog(NASTY))
    half = len(records) // 2
    stage.bring_records("requests, of which some are late, twice, malformed or out of order", records[:half])
    stage.bring_records("the rest of them", records[half:])
    events = readable(records)
    by_day = stage.rows(health, grain="1 day")
    checks = [
        against_truth("of whole days: the same rates, merged", health, by_day, true_health(events, BY_DAY)),
        equal(
            "records in quarantine", sum(stage.rejected().values()), sum(one.event is None for one in records)
        ),
        *stage.three_ways(
            {
                daily_pages.name: true_content(events, BY_DAY),
                trending.name: true_content(events, FIVE_MINUTES),
                visits.name: true_visits(events),
                health.name: true_health(events),
            }
        ),
    ]
    days, busiest = sorted(start for (start,) in by_day), _busiest(stage.rows(trending))
    results = (*(_popular(stage, day) for day in days), _trending(stage, busiest), _health(by_day))
    return Played(results, tuple(checks))


def _busiest(rows: Answer) -> datetime:
    """The window in which a page was viewed most."""
    start: datetime = max(rows, key=lambda group: (rows[group]["views"], group))[-1]
    return start


def _popular(stage: Stage, day: datetime) -> Shown:
    rows = stage.top(daily_pages, "views", SHOWN, "window", **_only(day, timedelta(days=1)))
    zone = daily_pages.source.zone
    return Shown(
        f"the most popular content of {day.astimezone(zone):%d %B}", ("page", "views"), rows, ("views",)
    )


def _trending(stage: Stage, start: datetime) -> Shown:
    rows = stage.top(trending, "views", 5, "window", **_only(start, timedelta(minutes=1)))
    local = start.astimezone(trending.source.zone)
    return Shown(
        f"trending in the five minutes from {local:%d %B, %H:%M}", ("page", "views"), rows, ("views",)
    )


def _health(by_day: Answer) -> Shown:
    zone = health.source.zone
    rows = tuple(
        (f"{start.astimezone(zone):%d %B}", *(row[name] for name in ("requests", "visitors", "bytes", "p95_bytes")),
         f"{row['error_rate']:.2%}")
        for (start,), row in sorted(by_day.items())
    )  # fmt: skip
    return Shown(
        "is the site well?", ("day", "requests", "visitors", "bytes", "p95 of bytes", "errors"), rows
    )


def _only(start: datetime, length: timedelta) -> dict[str, Any]:
    """The window that begins there."""
    return {"start": start.isoformat(), "end": (start + length).isoformat()}
