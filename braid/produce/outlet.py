"""Where records are sent: to a topic of Kafka, or to a file."""

import os
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from braid.errors import BraidError
from braid.produce.record import Record
from braid.runtime.kafka import client, close_producer, connect
from braid.runtime.settings import Settings

if TYPE_CHECKING:
    from kafka import KafkaProducer

CONNECT_TIMEOUT_MS = 4_000
DELIVERY_TIMEOUT_MS = 120_000
STOP_TIMEOUT_S = 5.0
# A node that was lost is among a cluster's nodes until its session is over, and may be the one that is asked.
LOST_NODE_S, ASK_AGAIN_S = 15.0, 0.2
# The client has no limit of its own to what it buffers. A few full batches keep it busy; more only costs memory.
UNACKNOWLEDGED = 5_000

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


@contextmanager
def kafka_outlet(settings: Settings, topic: str, partitions: int) -> Iterator["KafkaOutlet"]:
    """An outlet to a topic, which is created when it is missing (it keeps its partitions when it is not)."""
    from kafka import KafkaProducer

    _ensure_topic(settings, topic, partitions)
    producer = connect(
        settings,
        KafkaProducer,
        CONNECT_TIMEOUT_MS,
        enable_idempotence=True,
        acks="all",
        delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
        # Checksums are computed in Python: of a tenth of the bytes, sending is half as fast again.
        compression_type="gzip",
        batch_size=256 * 1024,
        linger_ms=20,
        metrics_enabled=False,
    )
    try:
        yield KafkaOutlet(producer, topic, settings.kafka_user or "ANONYMOUS")
    finally:
        close_producer(producer, STOP_TIMEOUT_S)


class KafkaOutlet:
    """One topic of a connected producer: idempotent, acknowledged by all replicas, in order within a partition."""

    def __init__(self, producer: "KafkaProducer", topic: str, user: str) -> None:
        self._producer = producer
        self._topic = topic
        self._user = user

    def send(self, records: Iterable[Record], on_ack: OnAck, stop: Event) -> Sent:
        """Sends until there are no more or `stop` is set. What was acknowledged is reported, also on an error."""
        from kafka.errors import KafkaError

        count = len(self._producer.partitions_for(self._topic))
        sent, failure = Sent(), None
        waiting: deque[tuple[Record, Any]] = deque()
        for record in records:
            # The client's own partitioner gives the same spread and takes a fifth of the time of a send.
            partition = zlib.crc32(record.key) % count
            try:
                future = self._producer.send(self._topic, record.value, record.key, partition=partition)
            except KafkaError as error:
                failure = str(error)
                break
            waiting.append((record, future))
            if len(waiting) > UNACKNOWLEDGED:
                _wait([waiting[0][1]], stop, hurry=False)
                failure = _settle(*waiting.popleft(), sent, on_ack)
            if failure or stop.is_set():
                break
        _wait([future for _, future in waiting], stop, hurry=failure is not None)
        unsettled = [_settle(record, future, sent, on_ack) for record, future in waiting]
        failure = failure or next((problem for problem in unsettled if problem), None)
        if failure and "AuthorizationFailed" in failure:
            raise BraidError(
                f"user {self._user!r} may not write to topic {self._topic!r}; {sent.acknowledged} records were "
                "acknowledged. Allow it with your cluster's tools: docs/security.md lists what each part needs."
            )
        if failure:
            raise BraidError(
                f"topic {self._topic!r}: {sent.acknowledged} records were acknowledged, then one was not "
                f"({failure}). Is the broker still up? What was sent but not acknowledged may have arrived."
            )
        return sent


def _wait(futures: Iterable[Any], stop: Event, hurry: bool) -> None:
    """Waits until the broker has answered or the client has given up; in a hurry or once stopped, only seconds."""
    from kafka.errors import KafkaError

    deadline = None
    for future in futures:
        while not future.is_done:
            if deadline is None and (hurry or stop.is_set()):
                deadline = time.monotonic() + STOP_TIMEOUT_S
            if deadline is not None and time.monotonic() > deadline:
                return
            # In slices, because `stop` may be set meanwhile.
            with suppress(KafkaError):
                future.get(timeout=0.5)


def _settle(record: Record, future: Any, sent: Sent, on_ack: OnAck) -> str | None:
    """Reports a record that was acknowledged; otherwise what went wrong."""
    if not future.succeeded():
        return str(future.exception or "no answer from the broker")
    sent.add(future.value.partition, future.value.offset)
    on_ack(record)
    return None


def _ensure_topic(settings: Settings, topic: str, partitions: int) -> None:
    """Without a replication factor: the cluster's own default is what its administrators want of a topic."""
    from kafka import KafkaAdminClient
    from kafka.errors import (
        AuthorizationError,
        InvalidReplicationFactorError,
        InvalidTopicError,
        TopicAlreadyExistsError,
    )

    with client(settings, KafkaAdminClient, CONNECT_TIMEOUT_MS) as admin:
        try:
            if topic not in _topics(admin):
                admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            # Another process created it in the meantime, and that is all that was wanted.
            admin.wait_for_topics([topic])
        except InvalidTopicError:
            raise BraidError(
                f"{topic!r} is not a name that Kafka allows for a topic: use 1 to 249 letters, digits, '.', '_' and "
                "'-'."
            ) from None
        except InvalidReplicationFactorError as error:
            raise BraidError(
                f"topic {topic!r} cannot be created: {error}. Create it with your cluster's tools."
            ) from None
        except AuthorizationError:
            raise BraidError(
                f"user {settings.kafka_user or 'ANONYMOUS'!r} sees no topic {topic!r} and may not create it: create it "
                "with your cluster's tools, and allow the user to describe it and to write to it."
            ) from None


def _topics(admin: Any) -> list[str]:
    """A cluster that has just lost a node still answers: another node is asked."""
    from kafka.errors import KafkaConnectionError

    deadline = time.monotonic() + LOST_NODE_S
    while True:
        try:
            return list(admin.list_topics())
        except KafkaConnectionError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(ASK_AGAIN_S)
