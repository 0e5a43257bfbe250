"""The exact expected answer of what was sent, so that everything downstream can be checked against it."""

import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from braid.errors import BraidError
from braid.produce.record import DUPLICATE, FAR_DUPLICATE, Event, Record

# Every zone's offset has been a multiple of this since 1972, so one look-up serves all its moments.
_QUARTER_HOUR_MS = 900_000
MINUTE_US, WATERMARK_US = 60_000_000, 600_000_000
AFTER_SECONDS = (0, 1, 10, 60, 600, 3_600, 86_400)
LATENESS_MS = {"1 minute": 60_000, "1 hour": 3_600_000, "1 day": 86_400_000}


class Traffic:
    """Events, bytes and visitors of one group; bytes stay unknown (None) until one event has them, as in SQL."""

    __slots__ = ("bytes", "events", "hosts")

    def __init__(self) -> None:
        self.events = 0
        self.bytes: int | None = None
        self.hosts: set[str] = set()

    def add(self, event: Event) -> None:
        self.events += 1
        if event.bytes is not None:
            self.bytes = (self.bytes or 0) + event.bytes
        if event.host is not None:
            self.hosts.add(event.host)


class Truth:
    """Counts records as ingest should: the first record of an id is accepted, the others are duplicates."""

    def __init__(self, zone: ZoneInfo) -> None:
        self.zone = zone
        self.kinds: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.malformed: Counter[str] = Counter()
        self.duplicates: Counter[str] = Counter()
        self.far_duplicates: list[str] = []
        self.ids: set[str] = set()
        self.days: defaultdict[str, Traffic] = defaultdict(Traffic)
        self.statuses: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.pages: defaultdict[tuple[str, str], Traffic] = defaultdict(Traffic)
        self.late: Counter[str] = Counter()
        self.longest_lateness_ms = 0
        self.arrivals: list[tuple[int, int]] = []
        self._newest_ms: int | None = None
        self._day_of: dict[int, str] = {}

    def add(self, record: Record) -> None:
        self.kinds[record.kind] += 1
        event = record.event
        if event is None:
            self.reasons[str(record.reason)] += 1
            self.malformed[record.kind] += 1
        elif event.id in self.ids:
            far = record.kind == FAR_DUPLICATE
            self.duplicates[FAR_DUPLICATE if far else DUPLICATE] += 1
            if far:
                self.far_duplicates.append(event.id)
        else:
            self._accept(event)
            if record.arrived_us is not None and event.time_ms is not None and (event.status or 0) < 400:
                self.arrivals.append((record.arrived_us, event.time_ms * 1000))

    def _accept(self, event: Event) -> None:
        self.ids.add(event.id)
        if event.time_ms is None:
            return
        self._measure_lateness(event.time_ms)
        day = self._day(event.time_ms)
        self.days[day].add(event)
        if event.status is not None:
            self.statuses[day][str(event.status)] += 1
            if event.status < 400 and event.url is not None:
                self.pages[day, event.url].add(event)

    def _measure_lateness(self, time_ms: int) -> None:
        if self._newest_ms is None or time_ms >= self._newest_ms:
            self._newest_ms = time_ms
            return
        lateness = self._newest_ms - time_ms
        self.longest_lateness_ms = max(self.longest_lateness_ms, lateness)
        for name, limit in LATENESS_MS.items():
            if lateness > limit:
                self.late[name] += 1

    def _day(self, time_ms: int) -> str:
        quarter = time_ms // _QUARTER_HOUR_MS
        day = self._day_of.get(quarter)
        if day is None:
            moment = datetime.fromtimestamp(quarter * _QUARTER_HOUR_MS // 1000, self.zone)
            day = self._day_of[quarter] = moment.date().isoformat()
        return day

    @property
    def sent(self) -> int:
        return self.kinds.total()

    def as_dict(self) -> dict[str, Any]:
        """As it is written: the numbers first, the long lists last."""
        ids = sorted(self.ids)
        return {
            "timezone": self.zone.key,
            "sent": self.sent,
            "accepted": len(ids),
            "rejected": self.reasons.total(),
            "duplicates": self.duplicates.total(),
            "kinds": dict(sorted(self.kinds.items())),
            "rejected_by_reason": dict(sorted(self.reasons.items())),
            "rejected_by_kind": dict(sorted(self.malformed.items())),
            # Far duplicates may arrive after the horizon; ingest then accepts them a second time.
            "duplicates_by_distance": {
                "near": self.duplicates[DUPLICATE],
                "far": self.duplicates[FAR_DUPLICATE],
                "far_ids": sorted(self.far_duplicates),
            },
            "late": {
                **{f"more than {name} behind": self.late[name] for name in LATENESS_MS},
                "longest_seconds": self.longest_lateness_ms / 1000,
            },
            "days": {
                day: {
                    "events": traffic.events,
                    "bytes": traffic.bytes,
                    "visitors": len(traffic.hosts),
                    "statuses": dict(sorted(self.statuses[day].items())),
                }
                for day, traffic in sorted(self.days.items())
            },
            "page_traffic_where": "status < 400",
            **({"page_traffic_arrivals": arrivals(self.arrivals)} if self.arrivals else {}),
            "page_traffic": [
                {
                    "day": day,
                    "url": url,
                    "hits": traffic.events,
                    "bytes": traffic.bytes,
                    "visitors": len(traffic.hosts),
                }
                for (day, url), traffic in sorted(self.pages.items())
            ],
            "ids_sha256": ids_digest(ids),
            "ids": ids,
        }


def truth(records: Iterable[Record], zone: ZoneInfo) -> dict[str, Any]:
    """What ingest should make of these records."""
    count = Truth(zone)
    for record in records:
        count.add(record)
    return count.as_dict()


def arrivals(events: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """How late events with (arrival, time) in microseconds are for windows that end with each minute.

    `within_seconds` counts those that were there so long after the end of their window; `dropped` those of which a
    stream with the usual watermark had closed the window, because it had seen an event of so much later.
    """
    within, dropped, events_ = dict.fromkeys(AFTER_SECONDS, 0), 0, sorted(events)
    newest, last_end = None, 0
    for came, time in events_:
        end = (time // MINUTE_US + 1) * MINUTE_US
        for seconds in within:
            within[seconds] += came <= end + seconds * 1_000_000
        dropped += newest is not None and end <= newest - WATERMARK_US
        newest, last_end = max(newest or 0, time), max(last_end, end)
    return {
        "events": len(events_),
        "within_seconds": {str(seconds): count for seconds, count in within.items()},
        "dropped_by_a_watermark_of_10_minutes": dropped,
        "first_arrival_us": events_[0][0],
        "last_arrival_us": events_[-1][0],
        "newest_event_us": newest,
        "last_window_end_us": last_end,
    }


def ids_digest(ids: Iterable[str]) -> str:
    """One line for a set of ids: the SHA-256 of the sorted ids, each followed by a newline."""
    digest = hashlib.sha256()
    for one in sorted(ids):
        digest.update(f"{one}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def write_truth(path: Path, origin: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """Writes it whole or not at all: half a truth would be believed."""
    waiting = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with waiting.open("w") as out:
            json.dump({**origin, **answer}, out, indent=1)
        waiting.replace(path)
    except OSError as error:
        waiting.unlink(missing_ok=True)
        raise BraidError(
            f"cannot write the truth to {path}: {error.strerror}. Choose another --truth FILE."
        ) from None
