"""The imaginary web site: its pages, visitors, answers and sizes, and how many requests come in each hour."""

import json
from bisect import bisect_right
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from itertools import accumulate, pairwise
from random import Random
from typing import Generic, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

SECTIONS = ("missions", "news", "history", "images", "facts", "software", "people", "video")
TOPICS = ("launch", "crew", "orbit", "landing", "engine", "pad", "rover", "station", "patch", "countdown")
# What a server of files has: pages with and without an extension, pictures, and a few large downloads.
ENDINGS = (".html", ".gif", "/", ".html", ".jpg", ".htm", ".gif", ".txt", "", ".mpg", ".css", ".xbm")
# Texts that break whoever builds JSON, CSV or SQL by hand; all of them are valid.
ODD_URLS = (
    "/cgi-bin/search?q=solid+rocket&page=2",
    "/people/José-Álvarez.html",
    '/cgi-bin/echo?say="hello"',
    "/images/日の出.jpg",
    "/files/back\\slash.txt",
    "/facts/it's-100%.html",
    "/news/a,b;c.html",
)
PAGES = 600
HOSTS = 3000
ZIPF = 1.05
SHORTEST_LATENESS_MS = 5 * 60_000

STATUSES = {200: 88.0, 304: 7.5, 302: 2.0, 206: 0.4, 404: 1.5, 403: 0.1, 500: 0.4, 503: 0.1}
Drawn = TypeVar("Drawn")
# Requests in each hour of a local day, relative to each other: quiet before dawn, busiest after lunch.
HOURS = (38, 30, 24, 20, 18, 19, 25, 40, 62, 78, 86, 92, 96, 100, 99, 97, 90, 78, 66, 62, 60, 58, 54, 46)
WEEKEND = 0.6
_HOUR = 3600


class Named(NamedTuple):
    """A text, and the same text as JSON: encoding it once per page is cheaper than once per event."""

    text: str
    json: str


class Choice(NamedTuple, Generic[Drawn]):
    """Things to draw from, in the form that `random.choices` takes without summing the weights again."""

    options: Sequence[Drawn]
    cumulative: Sequence[float]


def named(text: str) -> Named:
    return Named(text, json.dumps(text, ensure_ascii=False))


def zipf(options: Sequence[Named], exponent: float = ZIPF) -> Choice[Named]:
    """The first is the most frequent; the n-th occurs 1 / n^exponent times as often."""
    return Choice(options, list(accumulate(1 / rank**exponent for rank in range(1, len(options) + 1))))


def pages() -> Choice[Named]:
    urls = ["/", "/images/logo.gif", "/images/launch.gif", "/news/", "/index.html"]
    for n in range(PAGES - len(urls) - len(ODD_URLS)):
        section, topic = SECTIONS[n % len(SECTIONS)], TOPICS[n % len(TOPICS)]
        urls.append(f"/{section}/{topic}-{n // 7}{ENDINGS[n % len(ENDINGS)]}")
    # Frequent enough to occur in a small run.
    urls[20:20] = ODD_URLS
    return zipf([named(url) for url in urls])


def hosts() -> Choice[Named]:
    """Names and bare addresses: some hosts look like numbers, and must stay texts."""
    names = []
    for n in range(HOSTS):
        if n % 5 == 2:
            names.append(f"198.51.{n // 250}.{n % 250 + 1}")
        elif n % 5 == 4:
            names.append(f"proxy{n % 97}.net{n // 97}.example.com")
        else:
            names.append(f"dial-{n}.isp{n % 41}.example.net")
    return zipf([named(name) for name in names], 0.9)


def statuses() -> Choice[int]:
    return Choice(list(STATUSES), list(accumulate(STATUSES.values())))


def size(status: int, draw: float) -> int | None:
    """The bytes of an answer, from one uniform draw: heavy-tailed for content, unknown for most errors."""
    if status == 304:
        return 0
    if status in (200, 206):
        return None if draw < 0.004 else min(int(350 * (1 - draw) ** -0.85), 60_000_000)
    if status == 302:
        return 180 + int(draw * 200)
    return None if draw < 0.8 else int(draw * 500)


class Hour(NamedTuple):
    """An hour of the run, half-open, with its events and how many the run has before it."""

    start_ms: int
    length_ms: int
    before: int
    events: int


def schedule(events: int, days: int, start: date, zone: ZoneInfo) -> list[Hour]:
    """Shares the events out over the hours; days with 23 or 25 hours have what their hours have."""
    midnights = [_midnight(start + timedelta(days=n), zone) for n in range(days + 1)]
    spans = [
        (begin, min(_HOUR, tomorrow - begin))
        for today, tomorrow in pairwise(midnights)
        for begin in range(today, tomorrow, _HOUR)
    ]
    weights = [_weight(datetime.fromtimestamp(begin, zone)) * length for begin, length in spans]
    total, passed, before, hours = sum(weights), 0, 0, []
    for (begin, length), weight in zip(spans, weights, strict=True):
        passed += weight
        # Rounding the running total, not each hour, makes the hours add up to exactly what was asked for.
        through = events * passed // total
        hours.append(Hour(begin * 1000, length * 1000, before, through - before))
        before = through
    return hours


def position_at(hours: Sequence[Hour], moment_ms: int) -> float:
    """How many events the run has, as planned, before this moment."""
    hour = hours[max(0, bisect_right(hours, moment_ms, key=lambda one: one.start_ms) - 1)]
    share = min(1.0, max(0.0, (moment_ms - hour.start_ms) / hour.length_ms))
    return hour.before + share * hour.events


def moment_at(hours: Sequence[Hour], position: float) -> int:
    """When the run has had, as planned, so many events; its end for more than it has."""
    hour = hours[max(0, bisect_right(hours, position, key=lambda one: one.before) - 1)]
    share = min(1.0, (position - hour.before) / hour.events) if hour.events else 1.0
    return hour.start_ms + int(share * hour.length_ms)


def lateness(time_ms: int, hours: list[Hour], rng: Random) -> int:
    """From minutes to days: each order of magnitude is as likely as the next, within what is left of the run."""
    longest = max(end_ms(hours) - time_ms, SHORTEST_LATENESS_MS)
    return int(SHORTEST_LATENESS_MS * (longest / SHORTEST_LATENESS_MS) ** rng.random())


def end_ms(hours: Sequence[Hour]) -> int:
    return hours[-1].start_ms + hours[-1].length_ms


def _midnight(day: date, zone: ZoneInfo) -> int:
    return int(datetime.combine(day, time(), zone).timestamp())


def _weight(local: datetime) -> int:
    """A whole number, so that the shares do not depend on how a machine rounds."""
    return int(HOURS[local.hour] * (WEEKEND if local.weekday() >= 5 else 1) * 10)
