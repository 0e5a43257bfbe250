"""One production from its records to its summary: send, count what is acknowledged, write the truth."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from braid.errors import BraidError
from braid.produce.outlet import OnAck, Outlet
from braid.produce.record import Record
from braid.produce.truth import Truth, write_truth
from braid.runtime.signals import stop_on_signals

# Shorter waits cost more than they give: a timer is not more exact than this.
_SHORTEST_WAIT = 0.005


@dataclass(frozen=True)
class Production:
    """What will be sent: the records, what they are made from, and about how many, where that is known."""

    records: Iterator[Record]
    origin: dict[str, Any]
    expected: int | None
    zone: ZoneInfo


@dataclass(frozen=True)
class Summary:
    """What has been acknowledged, and how long that took."""

    acknowledged: int
    kinds: dict[str, int]
    partitions: dict[int, tuple[int, int, int]]
    seconds: float
    interrupted: bool

    @property
    def per_second(self) -> int:
        return round(self.acknowledged / self.seconds) if self.seconds else 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "sent": self.acknowledged,
            "kinds": self.kinds,
            "seconds": round(self.seconds, 3),
            "events_per_second": self.per_second,
            "interrupted": self.interrupted,
            "partitions": {
                str(partition): {"records": records, "first_offset": first, "last_offset": last}
                for partition, (records, first, last) in sorted(self.partitions.items())
            },
        }


def run(
    production: Production,
    outlet: AbstractContextManager[Outlet],
    *,
    rate: float,
    truth_file: Path | None,
    on_ack: OnAck,
    clock: Callable[[], float] = time.monotonic,
) -> Summary:
    """Sends its records. The truth is of what was acknowledged, also when the run is cut short or fails."""
    kinds: Counter[str] = Counter()
    truth = Truth(production.zone) if truth_file else None

    def acknowledged(record: Record) -> None:
        kinds[record.kind] += 1
        if truth is not None:
            truth.add(record)
        on_ack(record)

    # An exception in the middle of a send would leave a record of which nobody knows whether it was sent.
    with outlet as connected, stop_on_signals(once=True) as stop:
        start = clock()
        try:
            sent = connected.send(paced(production.records, rate, clock, stop.wait), acknowledged, stop)
        finally:
            if truth is not None and truth_file is not None:
                write_truth(truth_file, production.origin, truth.as_dict())
        return Summary(
            sent.acknowledged, dict(sorted(kinds.items())), sent.partitions, clock() - start, stop.is_set()
        )


def paced(
    records: Iterator[Record], rate: float, clock: Callable[[], float], wait: Callable[[float], object]
) -> Iterator[Record]:
    """The records at `rate` a second, measured from the first one, so that a hiccup is caught up; 0 is no limit."""
    if rate == 0:
        yield from records
        return
    start = clock()
    for number, record in enumerate(records):
        ahead = number / rate - (clock() - start)
        if ahead > _SHORTEST_WAIT:
            wait(ahead)
        yield record


def check_sending(rate: float, partitions: int) -> None:
    if not 0 <= rate < float("inf"):
        raise BraidError(f"--rate {rate} is not a rate: use records a second, or 0 for as fast as possible.")
    if not 1 <= partitions <= 10_000:
        raise BraidError(f"--partitions {partitions} is not possible: use 1 or more, such as 3.")
