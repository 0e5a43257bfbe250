"""Events that are sent while something is measured: a web log that happens now, with probes to be recognised by."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from braid.produce.record import EVENT, Event, Record
from braid.produce.run import paced
from braid.produce.weblog import Weblog, weblog
from braid.runtime.settings import Settings

PROBE = "/probe/"
# More than any run sends: the generator makes them as they are taken.
ENDLESS = 50_000_000


@dataclass
class Probes:
    """When each probe was sent, by its url, of which there is no other."""

    sent: dict[str, float] = field(default_factory=dict)


def live_records(probes: Probes, every: float, clock: Callable[[], float] = time.time) -> Iterator[Record]:
    """The generator's events at the present time, and a probe in front of the first one that is due for it."""
    due, draw = clock(), random.Random(0)
    for record in weblog(Weblog(events=ENDLESS, days=365)):
        now = clock()
        if now >= due:
            # Never at one beat: a design with a trigger would meet all of them at the same moment of its round.
            due = max(due + every * draw.uniform(0.5, 1.5), now)
            url = f"{PROBE}{len(probes.sent)}"
            probes.sent[url] = now
            yield _record(Event(url, None, "probe.example.org", url, 200, 1), now)
        if record.event is not None:
            yield _record(record.event, now)


def _record(event: Event, now: float) -> Record:
    moment = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields = event._asdict() | {"time": moment}
    del fields["time_ms"]
    return Record(event.id.encode(), json.dumps(fields).encode(), EVENT, event)


@contextmanager
def live_load(settings: Settings, topic: str, rate: float, probe_every: float) -> Iterator[Probes]:
    """Sends until the block ends."""
    probes = Probes()
    with sending(settings, topic, live_records(probes, probe_every), rate):
        yield probes


@contextmanager
def sending(settings: Settings, topic: str, records: Iterator[Record], rate: float) -> Iterator[None]:
    """Sends records at a rate, from a thread, until the block ends."""
    from kafka import KafkaProducer

    stop = threading.Event()

    def send() -> None:
        # Whatever the client holds back is part of every design's freshness: hardly anything.
        producer = KafkaProducer(bootstrap_servers=settings.bootstrap, linger_ms=5)
        for record in paced(records, rate, time.monotonic, stop.wait):
            if stop.is_set():
                break
            producer.send(topic, record.value, record.key)
        producer.close()

    worker = threading.Thread(target=send)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()
