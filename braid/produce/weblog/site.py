"""The imaginary web site: its pages, visitors, answers and sizes, each with how often it occurs."""

import json
from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

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

STATUSES = {200: 88.0, 304: 7.5, 302: 2.0, 206: 0.4, 404: 1.5, 403: 0.1, 500: 0.4, 503: 0.1}


class Named(NamedTuple):
    """A text, and the same text as JSON: encoding it once per page is cheaper than once per event."""

    text: str
    json: str


Drawn = TypeVar("Drawn")


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
