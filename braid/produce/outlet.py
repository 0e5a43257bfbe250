"""What records are sent to: the result that every outlet gives, and the outlet that is a file."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Protocol

from braid.errors import BraidError
from braid.produce.record import Record

OnAck = Callable[[Record], None]


@dataclass
class Sent:
    """What has been acknowledged: how many, and per partition the records and the first and last offset."""

    acknowledged: int = 0
    partitions: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, partition: int, offset: int) -> None:
        self.acknowledged += 1
        records, first, last = self.partitions.get(partition, (0, offset, offset))
        self.partitions[partition] = (records + 1, min(first, offset), max(last, offset))


class Outlet(Protocol):
    """Takes records in order until there are no more or `stop` is set, and reports each that has arrived."""

    def send(self, records: Iterable[Record], on_ack: OnAck, stop: Event) -> Sent: ...


class FileOutlet:
    """A file with a record a line, for sources that read files; it appears when it is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def send(self, records: Iterable[Record], on_ack: OnAck, stop: Event) -> Sent:
        sent = Sent()
        # Readers of a folder skip names that begin with a dot.
        waiting = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with waiting.open("wb") as out:
                for record in records:
                    # A file has no null: the line is empty, and is refused for the same reason.
                    out.write((record.value or b"") + b"\n")
                    on_ack(record)
                    sent.add(0, sent.acknowledged)
                    if stop.is_set():
                        break
            waiting.replace(self.path)
        except OSError as error:
            waiting.unlink(missing_ok=True)
            raise BraidError(
                f"cannot write {self.path}: {error.strerror}. Choose another --to FILE."
            ) from None
        return sent
