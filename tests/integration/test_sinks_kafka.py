"""From a topic alone, keeping the newest revision of each row, the numbers that are served come out."""

import json
import random
import uuid
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from braid import kafka_topic, session, tumbling
from braid.define.sinks import KafkaSink
from braid.define.windows import Window
from braid.infra.broker import Broker
from braid.runtime.settings import Settings
from serving_layer.sinks.controls import place_of
from serving_layer.sinks.kafka_topic import KafkaTopic
from tests.serving import MIDNIGHT, MINUTE, some_events
from tests.sinks import Feeding, as_texts, begun, served


@pytest.fixture
def settings(home: Path, broker: Broker) -> Settings:
    return Settings(home=str(home), kafka_bootstrap=broker.bootstrap)


class Killed(BaseException):
    """The process ends here, whatever it was about to do."""


def feeding_of(settings: Settings, sink: KafkaSink) -> Feeding:
    return Feeding(settings, sink, KafkaTopic(sink, settings, place_of(settings, "hits", sink.name)))


def everything(broker: Broker, topic: str) -> list[tuple[bytes, dict[str, Any]]]:
    """By a reader that knows nothing of Braid, with the settings that clients have by themselves."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends, found = consumer.end_offsets(places), []
    while any(consumer.position(place) < ends[place] for place in places):
        for records in consumer.poll(timeout_ms=500).values():
            found += [(record.key, json.loads(record.value)) for record in records]
    consumer.close()
    return found


def newest(records: list[tuple[bytes, dict[str, Any]]]) -> list[str]:
    kept: dict[bytes, dict[str, Any]] = {}
    for key, record in random.Random(1).sample(records, len(records)):
        if key not in kept or kept[key]["revision"] < record["revision"]:
            kept[key] = record
    return as_texts(
        r["keys"]
        | r["numbers"]
        | {name: r[name] for name in ("window_start", "window_end")}
        | {"_status": r["status"]}
        for r in kept.values()
        if r["change"] != "withdrawn"
    )


@pytest.mark.parametrize(
    "window", [tumbling("1 minute"), session(gap="30 minutes")], ids=["minute", "session"]
)
def test_the_topic_alone_says_what_is_served_whenever_the_sender_was_killed(
    settings: Settings, broker: Broker, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"t-{uuid.uuid4().hex}"
    sink = kafka_topic(topic)
    tables = begun(settings, window)
    draw = random.Random(str(window))
    feeding = feeding_of(settings, sink)
    send = KafkaTopic._send
    for turn in range(1, 9):
        epoch = MIDNIGHT + turn * MINUTE
        tables.append(
            some_events(draw.randrange(99), 6, epoch, hours=draw.randrange(1, 30)), complete=epoch - MINUTE
        )
        feeding.look()

        def dies(self: KafkaTopic, records: Any) -> None:
            send(self, records[: draw.randrange(len(records) + 1)])
            raise Killed

        if turn % 2:
            monkeypatch.setattr(KafkaTopic, "_send", dies)
            with pytest.raises(Killed):
                feeding.delivering.turn()
            monkeypatch.setattr(KafkaTopic, "_send", send)
            feeding = feeding_of(settings, sink)
        feeding.turn()
        records = everything(broker, topic)
        assert newest(records) == served(settings)
    said: dict[Any, dict[str, Any]] = {}
    for key, record in records:
        assert said.setdefault((key, record["revision"]), record) == record, "one revision said two things"
    assert len(said) < len(records), "nothing came again: nothing was tested"
    assert {"view", "version", "revision", "change", "status", "complete", "keys", "numbers"} <= records[0][
        1
    ].keys()
    assert json.loads(records[0][0]).keys() == {"view", "window_start", "keys"}


def test_what_is_in_the_topic_already_is_not_sent_again(settings: Settings, broker: Broker) -> None:
    sink = kafka_topic(f"t-{uuid.uuid4().hex}", emit="final")
    tables = begun(settings, tumbling("1 minute"))
    tables.append(some_events(3, 30, MIDNIGHT + MINUTE, hours=20))
    feeding_of(settings, sink).turn()
    records = everything(broker, sink.topic)
    assert newest(records) == served(settings, final=True)
    feeding_of(settings, sink).turn()
    assert everything(broker, sink.topic) == records


def test_a_broker_that_does_not_answer_is_said_and_waited_for(home: Path) -> None:
    settings = Settings(home=str(home), kafka_bootstrap="127.0.0.1:9")
    begun(settings, tumbling("1 minute"))
    sink = kafka_topic("hits")
    feeding = feeding_of(settings, sink)
    assert not feeding.delivering.turn()
    assert "no Kafka broker answers on 127.0.0.1:9" in (feeding.delivering.status().error or "")
    assert "no Kafka broker answers" in (KafkaTopic(sink, settings, str(home)).problem() or "")
