"""weblog: batch's question and streaming's question from one source, and a rate that merges."""

from datetime import datetime, timedelta
from typing import Any

from braid.produce.weblog.scenario import Weblog, weblog
from examples.stage.checks import against_truth, equal
from examples.stage.naive import Answer
from examples.stage.shown import Played, Shown
from examples.stage.stage import Stage
from examples.weblog import data
from examples.weblog.website import daily_pages, health, trending, visits

NASTY = Weblog(events=3000, days=2, seed=1, late=0.2, duplicates=0.05, malformed=0.03, out_of_order=0.1)
SHOWN = 8


def play(stage: Stage) -> Played:
    stage.set(daily_pages, trending, visits, health)
    records = list(weblog(NASTY))
    half = len(records) // 2
    stage.bring_records("requests, of which some are late, twice, malformed or out of order", records[:half])
    stage.bring_records("the rest of them", records[half:])
    events = data.requests(records)
    by_day = stage.rows(health, grain="1 day")
    checks = [
        against_truth(
            "of whole days: the same rates, merged", health, by_day, data.health(events, data.BY_DAY)
        ),
        equal(
            "records in quarantine", sum(stage.rejected().values()), sum(one.event is None for one in records)
        ),
        *stage.three_ways(
            {
                daily_pages.name: data.content(events, data.BY_DAY),
                trending.name: data.content(events, data.FIVE_MINUTES),
                visits.name: data.visits(events),
                health.name: data.health(events),
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
