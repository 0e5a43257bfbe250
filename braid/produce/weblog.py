"""The web log scenario: a deterministic stream of requests, with the disorder that was asked for.

Events are made in the order of their times. What is late, out of order or sent twice waits in a heap until
the stream has reached the position at which it is sent, so that memory holds only what waits.
The texts of the events depend on the seed alone: more disorder sends the same events in another order.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from heapq import heappop, heappush
from itertools import accumulate, count
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from braid.errors import BraidError
from braid.produce import site
from braid.produce.record import (
    BROKEN_RULE,
    CLOCK,
    DUPLICATE,
    EVENT,
    FAR_DUPLICATE,
    LATE,
    NO_EVENT_TIME,
    UNPARSABLE,
    WRONG_TYPE,
    Event,
    Record,
    arrived,
)
from braid.produce.site import Hour, lateness, moment_at, position_at, schedule

TOPIC = "requests"
ZONE = "America/New_York"
# A fixed day, so that the same seed makes the same bytes next year; the third day of this run has 23 hours.
START = date(2024, 3, 8)
SHARES = ("late", "duplicates", "duplicates_far", "malformed", "out_of_order")

NEIGHBOURS = 8
DUPLICATE_WITHIN = 1000
# What is not in its place comes between two milliseconds: never at the very moment of an event that is.
MOVED_MS = 0.5
HUGE_BYTES = 100_000
NO_HTTP_CODES = (0, 999, -1)


@dataclass(frozen=True, kw_only=True)
class Weblog:
    """What to make. A share is of the events: 0.05 is one in twenty."""

    events: int = 10_000
    days: int = 3
    start: date = START
    seed: int = 1
    late: float = 0.0
    duplicates: float = 0.0
    duplicates_far: float = 0.0
    malformed: float = 0.0
    out_of_order: float = 0.0
    timezone: str = ZONE
    # If given, each event says in the column `arrived` when it came, so much later than its place in the stream.
    arrived_after_ms: int | None = None

    def __post_init__(self) -> None:
        for name in SHARES:
            share = getattr(self, name)
            if not 0 <= share <= 1:
                option = f"--{name.replace('_', '-')}"
                raise BraidError(f"{option} {share} is not a share: use a number from 0 to 1; 0.05 is 5 %.")
        for name in ("events", "days"):
            if getattr(self, name) < 1:
                raise BraidError(f"--{name} {getattr(self, name)} is too few: use 1 or more.")
        try:
            # One day of room on both sides, for the zone.
            (
                date.fromordinal(self.start.toordinal() - 1),
                date.fromordinal(self.start.toordinal() + self.days + 1),
            )
        except (ValueError, OverflowError):
            raise BraidError(
                f"{self.days} days from {self.start} leave the calendar: use fewer --days or another --start."
            ) from None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"start": self.start.isoformat()}

    @property
    def expected_records(self) -> int:
        """About as many records, for a progress bar."""
        return round(self.events * (1 + (1 - self.malformed) * (self.duplicates + self.duplicates_far)))


def parse_start(text: str, days: int, today: date) -> date:
    """The first day. Events of the future would be refused by ingest, and the truth would not be one."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise BraidError(f"--start {text!r} is not a day: write it as 2024-03-08.") from None
    if day.toordinal() + days - 1 > today.toordinal():
        raise BraidError(
            f"--start {text} and --days {days} reach into the future, which ingest refuses: the last day can be "
            f"{today - timedelta(days=1)}."
        )
    return day


def weblog(options: Weblog) -> Iterator[Record]:
    """The records in the order in which they are sent."""
    hours = schedule(options.events, options.days, options.start, ZoneInfo(options.timezone))
    rng = Random(f"{options.seed}/order")
    zoo = flaws(Random(f"{options.seed}/zoo"))
    serial = count()
    waiting: list[tuple[float, int, Record]] = []

    def send_at(position: float, record: Record) -> None:
        heappush(waiting, (position, next(serial), record))

    for number, (time_ms, event, text) in enumerate(_events(options.seed, hours)):
        position, came_ms = float(number), float(time_ms)
        if rng.random() < options.out_of_order:
            position += 1.5 + rng.random() * NEIGHBOURS
            came_ms = max(time_ms, moment_at(hours, position)) + MOVED_MS
        if rng.random() < options.malformed:
            flaw = next(zoo)
            send_at(
                position, Record(event.id.encode(), spoil(flaw, event, text), flaw, None, FLAWS[flaw].reason)
            )
        else:
            late = rng.random() < options.late
            if late:
                came = time_ms + lateness(time_ms, hours, rng)
                position, came_ms = max(position_at(hours, came), number + 1.5), came + MOVED_MS
            record = Record(event.id.encode(), text.encode(), LATE if late else EVENT, event)
            if options.arrived_after_ms is not None:
                record = arrived(record, text, came_ms + options.arrived_after_ms)
            send_at(position, record)
            if rng.random() < options.duplicates:
                send_at(position + 1 + rng.random() * DUPLICATE_WITHIN, record._replace(kind=DUPLICATE))
            if rng.random() < options.duplicates_far:
                send_at(position + options.events + 2 * DUPLICATE_WITHIN, record._replace(kind=FAR_DUPLICATE))
        while waiting and waiting[0][0] <= number:
            yield heappop(waiting)[2]
    while waiting:
        yield heappop(waiting)[2]


def _events(seed: int, hours: list[Hour]) -> Iterator[tuple[int, Event, str]]:
    """Each event with its time and its JSON, in the order of event time."""
    rng = Random(f"{seed}/events")
    pages, hosts, statuses = site.pages(), site.hosts(), site.statuses()
    for hour in hours:
        n = hour.events
        times = sorted(int(rng.random() * hour.length_ms) for _ in range(n))
        drawn = zip(
            times,
            rng.choices(hosts.options, cum_weights=hosts.cumulative, k=n),
            rng.choices(pages.options, cum_weights=pages.cumulative, k=n),
            rng.choices(statuses.options, cum_weights=statuses.cumulative, k=n),
            strict=True,
        )
        start = datetime.fromtimestamp(hour.start_ms // 1000, UTC).replace(tzinfo=None)
        for number, (offset, host, page, status) in enumerate(drawn, hour.before):
            event_id = f"w{seed}-{number:07d}"
            size = site.size(status, rng.random())
            time_ms = hour.start_ms + offset
            event = Event(event_id, time_ms, host.text, page.text, status, size)
            # A field that is not known is null in one client's records and absent in another's.
            tail = f',"bytes":{size}' if size is not None else "" if number % 2 else ',"bytes":null'
            time = (start + timedelta(milliseconds=offset)).isoformat(timespec="milliseconds")
            yield (
                time_ms,
                event,
                f'{{"id":"{event_id}","time":"{time}Z","host":{host.json},"url":{page.json},"status":{status}{tail}}}',
            )


class Parts(NamedTuple):
    """A good record taken apart: `{head}"time":...,{tail}` and `{body},"status":...}` are its text again."""

    event: Event
    text: str
    head: str
    tail: str
    body: str


class Flaw(NamedTuple):
    """A way to be bad: the reason that ingest gives, how often relative to the others, and the value sent."""

    reason: str
    weight: float
    value: Callable[[Parts], str | bytes | None]


FLAWS: Mapping[str, Flaw] = MappingProxyType(
    {
        "truncated JSON": Flaw(UNPARSABLE, 3, lambda good: good.text[: len(good.text) * 2 // 3]),
        "Latin-1 text": Flaw(
            UNPARSABLE,
            1,
            lambda good: good.text.replace('"url":"', '"url":"/caf\xe9').encode("latin-1", "replace"),
        ),
        "UTF-16 text": Flaw(UNPARSABLE, 1, lambda good: good.text.encode("utf-16")),
        "plain text": Flaw(UNPARSABLE, 1, lambda good: f"{good.event.host} - - {good.event.url}"),
        "empty value": Flaw(UNPARSABLE, 1, lambda good: b""),
        "null value": Flaw(UNPARSABLE, 1, lambda good: None),
        "JSON array": Flaw(UNPARSABLE, 1, lambda good: f"[{good.text}]"),
        "JSON scalar": Flaw(UNPARSABLE, 0.5, lambda good: str(good.event.time_ms)),
        # Rare, or by volume a long run would consist of them.
        "huge line": Flaw(UNPARSABLE, 0.02, lambda good: f'{good.text[:-1]},"padding":"{"x" * HUGE_BYTES}'),
        "status is a word": Flaw(WRONG_TYPE, 2, lambda good: good.body + ',"status":"OK","bytes":512}'),
        "bytes is an object": Flaw(
            WRONG_TYPE, 1, lambda good: good.body + ',"status":200,"bytes":{"body":512}}'
        ),
        "bytes has a unit": Flaw(WRONG_TYPE, 1, lambda good: good.body + ',"status":200,"bytes":"12 kB"}'),
        "time is a word": Flaw(WRONG_TYPE, 1, lambda good: f'{good.head}"time":"yesterday",{good.tail}'),
        "time is absent": Flaw(NO_EVENT_TIME, 2, lambda good: good.head + good.tail),
        "time is null": Flaw(NO_EVENT_TIME, 1, lambda good: f'{good.head}"time":null,{good.tail}'),
        "status is no HTTP code": Flaw(
            BROKEN_RULE,
            3,
            lambda good: f'{good.body},"status":{NO_HTTP_CODES[len(good.text) % 3]},"bytes":512}}',
        ),
        "year 9999": Flaw(CLOCK, 1, lambda good: f'{good.head}"time":"9999-12-31T23:59:59Z",{good.tail}'),
        "year 1900": Flaw(CLOCK, 1, lambda good: f'{good.head}"time":"1900-01-01T00:00:00Z",{good.tail}'),
    }
)


def flaws(rng: Random) -> Iterator[str]:
    """Each one once, so that a small run has them all, then at random by weight."""
    yield from FLAWS
    names, cumulative = list(FLAWS), list(accumulate(flaw.weight for flaw in FLAWS.values()))
    while True:
        yield from rng.choices(names, cum_weights=cumulative, k=100)


def spoil(flaw: str, event: Event, text: str) -> bytes | None:
    """The value of an event's record (`text` is its JSON, with id and time first) with this flaw."""
    head, rest = text.split('"time":', 1)
    parts = Parts(event, text, head, rest.split(",", 1)[1], text.partition(',"status":')[0])
    value = FLAWS[flaw].value(parts)
    return value.encode() if isinstance(value, str) else value
