"""A view as records of a Kafka topic: written down first, so that one that comes again says the same."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from braid.define.sinks import KafkaSink
from braid.define.view import View
from braid.errors import BraidError
from braid.runtime import documents, kafka
from braid.runtime.settings import Settings
from serving_layer.sinks.controls import last_revision, note_revision
from serving_layer.sinks.outgoing import Delivery, Held, State, row_of

CONNECT_MS = 10_000
DELIVER_SECONDS = 30.0
# Records that are written down at a time.
MOST = 20_000


class KafkaTopic:
    """One topic. Before records are sent they are in the outbox; it is empty when the broker has all of them."""

    def __init__(self, sink: KafkaSink, settings: Settings, place: str) -> None:
        self._sink, self._settings = sink, settings
        self._place, self._outbox = place, f"{place}/outbox.jsonl"
        self._producer: Any = None

    def held(self, view: View) -> Held:
        self._require_topic()
        waiting = documents.read(self._outbox)
        records = [json.loads(line) for line in (waiting or "").splitlines()]
        self._send(records)
        documents.remove(self._outbox)
        found = held_by(self._read(), view.name)
        # A topic that deletes old records forgets their revisions, and those who have read them do not.
        return replace(found, revision=max(found.revision, last_revision(self._place)))

    def take(self, delivery: Delivery) -> None:
        if not delivery.is_empty:
            note_revision(self._place, delivery.revision)
        for some in _batched(delivery.records()):
            documents.write(self._outbox, "".join(json.dumps(record) + "\n" for record in some))
            self._send(some)
            documents.remove(self._outbox)

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            kafka.close_producer(producer, 1.0)

    def problem(self) -> str | None:
        """What would keep this sink from working; nothing is made or written for that."""
        try:
            self._require_topic(is_asked_only=True)
        except BraidError as error:
            return str(error)
        return None

    def _require_topic(self, is_asked_only: bool = False) -> None:
        """A topic that is not there is made, compacted: of each row at least the newest record stays."""
        from kafka import KafkaAdminClient
        from kafka.errors import TopicAlreadyExistsError

        topic = self._sink.topic
        with kafka.client(self._settings, KafkaAdminClient, CONNECT_MS) as admin:
            if topic in admin.list_topics():
                self._require_rights(admin)
                return
            try:
                admin.create_topics(
                    {topic: {"num_partitions": 1, "configs": {"cleanup.policy": "compact"}}},
                    wait_for_metadata=not is_asked_only,
                    validate_only=is_asked_only,
                )
            except TopicAlreadyExistsError:
                return

    def _require_rights(self, admin: Any) -> None:
        """As the broker tells them; an old one that does not is believed to refuse when it is tried."""
        (found,) = admin.describe_topics([self._sink.topic])
        allowed = found.get("authorized_operations")
        lacking = [name for name in ("READ", "WRITE") if allowed and name not in allowed]
        if lacking:
            raise self._refused(" and ".join(lacking).lower().replace("write", "write to"))

    def _refused(self, what: str) -> BraidError:
        return BraidError(
            f"Kafka does not allow user {self._settings.kafka_user or 'ANONYMOUS'!r} to {what} topic "
            f"{self._sink.topic!r}: grant it, or name another topic. docs/security.md lists what each part of Braid "
            "must be allowed."
        )

    def _send(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Returns when the broker has all of them, each once for this producer."""
        if not records:
            return
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        if self._producer is None:
            self._producer = kafka.connect(
                self._settings, KafkaProducer, CONNECT_MS, acks="all", enable_idempotence=True, linger_ms=5,
                max_block_ms=CONNECT_MS, delivery_timeout_ms=int(DELIVER_SECONDS * 1000),
                request_timeout_ms=CONNECT_MS,
            )  # fmt: skip
        try:
            topic, emit = self._sink.topic, self._sink.emit
            sent = [
                self._producer.send(topic, key=key_of(record, emit), value=json.dumps(record).encode())
                for record in records
            ]
            self._producer.flush(timeout=DELIVER_SECONDS)
            for each in sent:
                each.get(timeout=DELIVER_SECONDS)
        except KafkaError as error:
            self.close()
            # A producer that was refused hears it as the reason of another error.
            if "AuthorizationFailed" in f"{error!r} {error}":
                raise self._refused("write to") from None
            raise kafka.refusal(self._settings, error) from None

    def _read(self) -> Iterator[dict[str, Any]]:
        """Every record that the topic has, from its beginning to what is its end now."""
        from kafka import KafkaConsumer, TopicPartition

        topic = self._sink.topic
        with kafka.client(self._settings, KafkaConsumer, CONNECT_MS, enable_auto_commit=False) as consumer:
            places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            ends = consumer.end_offsets(places)
            deadline = time.monotonic() + DELIVER_SECONDS
            while any(consumer.position(place) < ends[place] for place in places):
                if time.monotonic() > deadline:
                    raise BraidError(
                        f"{self._sink.name}: the topic could not be read to its end within {DELIVER_SECONDS:g} s "
                        "without a record: it is tried again."
                    )
                for records in consumer.poll(timeout_ms=500).values():
                    deadline = time.monotonic() + DELIVER_SECONDS
                    for record in records:
                        yield from _ours(record.value)


def key_of(record: Mapping[str, Any], emit: str) -> bytes:
    """View, window and keys; in a history the revision too, so that a compacted topic keeps all of it."""
    parts: dict[str, Any] = {name: record[name] for name in ("view", "window_start", "keys")}
    parts |= {"revision": record["revision"]} if emit == "revisions" else {}
    return json.dumps(parts, sort_keys=True).encode()


def held_by(records: Iterator[dict[str, Any]], view: str) -> Held:
    """What a reader has who keeps the newest revision of each row."""
    newest: dict[str, int] = {}
    state: State = {}
    for record in records:
        at, row = row_of(record)
        revision = int(record["revision"])
        if record["view"] != view or revision < newest.get(at, 0):
            continue
        newest[at] = revision
        state.pop(at, None)
        if record["change"] != "withdrawn":
            state[at] = row
    return Held(state, max(newest.values(), default=0))


def _ours(value: bytes | None) -> Iterator[dict[str, Any]]:
    """What others put into the topic is not ours to read."""
    try:
        record = json.loads(value or b"")
        row_of(record)
        int(record["revision"]), record["view"], record["change"]
    except (ValueError, KeyError, TypeError):
        return
    yield record


def _batched(records: Iterator[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    some: list[dict[str, Any]] = []
    for record in records:
        some.append(record)
        if len(some) == MOST:
            yield some
            some = []
    if some:
        yield some
