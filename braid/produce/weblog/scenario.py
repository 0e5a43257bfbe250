"""The web log scenario: a deterministic stream of requests, with the disorder that was asked for.

Events are made in the order of their times. What is late, out of order or sent twice waits in a heap until
the stream has reached the position at which it is sent, so that memory holds only what waits.
The texts of the events depend on the seed alone: more disorder sends the same events in another order.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from braid.errors import BraidError
from braid.produce.record import DUPLICATE, EVENT, FAR_DUPLICATE, LATE, Event, Record
from braid.produce.weblog import site
from braid.produce.weblog.malformed import FLAWS, flaws, spoil
from braid.produce.weblog.rhythm import Hour, end_ms, moment_at, position_at, schedule

TOPIC = "requests"
ZONE = "America/New_York"
# A fixed day, so that the same seed makes the same bytes next year; the third day of this run has 23 hours.
START = date(2024, 3, 8)
SHARES = ("late", "duplicates", "duplicates_far", "malformed", "out_of_order")

SHORTEST_LATENESS_MS = 5 * 60_000
NEIGHBOURS = 8
DUPLICATE_WITHIN = 1000
# What is not in its place comes between two milliseconds: never at the very moment of an event that is.
MOVED_MS = 0.5


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
                came = time_ms + _lateness(time_ms, hours, rng)
                position, came_ms = max(position_at(hours, came), number + 1.5), came + MOVED_MS
            record = Record(event.id.encode(), text.encode(), LATE if late else EVENT, event)
            if options.arrived_after_ms is not None:
                record = _arrived(record, text, came_ms + options.arrived_after_ms)
            send_at(position, record)
            if rng.random() < options.duplicates:
                send_at(position + 1 + rng.random() * DUPLICATE_WITHIN, record._replace(kind=DUPLICATE))
            if rng.random() < options.duplicates_far:
                send_at(position + options.events + 2 * DUPLICATE_WITHIN, record._replace(kind=FAR_DUPLICATE))
        while waiting and waiting[0][0] <= number:
            yield heappop(waiting)[2]
    while waiting:
        yield heappop(waiting)[2]


def _lateness(time_ms: int, hours: list[Hour], rng: Random) -> int:
    """From minutes to days: each order of magnitude is as likely as the next, within what is left of the run."""
    longest = max(end_ms(hours) - time_ms, SHORTEST_LATENESS_MS)
    return int(SHORTEST_LATENESS_MS * (longest / SHORTEST_LATENESS_MS) ** rng.random())


def _arrived(record: Record, text: str, came_ms: float) -> Record:
    """The record with a column that says when it came; one that is sent again says the same again."""
    micros = int(came_ms * 1000)
    came = datetime.fromtimestamp(micros // 1_000_000, UTC).replace(
        tzinfo=None, microsecond=micros % 1_000_000
    )
    value = f'{text[:-1]},"arrived":"{came.isoformat(timespec="microseconds")}Z"}}'
    return record._replace(value=value.encode(), arrived_us=micros)


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
