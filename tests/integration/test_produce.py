"""Sending to a real broker: everything acknowledged is in the topic, in order, and the truth describes it."""

import json
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from braid.errors import BraidError
from braid.produce.outlet import kafka_outlet
from braid.produce.record import Record
from braid.produce.run import Production, run
from braid.produce.truth import truth
from braid.produce.weblog import ZONE, Weblog, weblog
from braid.runtime.settings import Settings

NASTY = Weblog(events=5000, late=0.2, duplicates=0.05, malformed=0.03, out_of_order=0.1)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"{request.node.originalname}-{time.time_ns()}"


def consumed(bootstrap: str, topic: str) -> dict[int, list[tuple[bytes, bytes | None]]]:
    """Everything in the topic: per partition, key and value in the order of the offsets."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        found = defaultdict(list, {one.partition: [] for one in partitions})
        while any(consumer.position(one) < ends[one] for one in partitions):
            for one, batch in consumer.poll(timeout_ms=1000).items():
                found[one.partition] += [(record.key, record.value) for record in batch]
        return dict(found)
    finally:
        consumer.close()


def test_every_record_arrives_once_and_in_order_within_its_partition(broker, topic: str):
    records = list(weblog(NASTY))
    acknowledged: list[Record] = []
    with kafka_outlet(Settings(kafka_bootstrap=broker.bootstrap), topic, partitions=4) as outlet:
        sent = outlet.send(records, acknowledged.append, threading.Event())
    assert acknowledged == records
    found = consumed(broker.bootstrap, topic)
    assert len(found) == 4
    for partition, rows in found.items():
        keys = {key for key, _ in rows}
        assert rows == [(record.key, record.value) for record in records if record.key in keys]
        assert sent.partitions[partition] == (len(rows), 0, len(rows) - 1)


@pytest.mark.usefixtures("home")
def test_the_command_sends_to_the_broker_of_the_settings(
    broker, topic: str, braid: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BRAID_KAFKA_BOOTSTRAP", broker.bootstrap)
    file = tmp_path / "truth.json"
    answer = braid(
        "produce", "--events", 2000, "--duplicates", 0.1, "--topic", topic, "--truth", file, "--json"
    )
    assert answer.code == 0, answer.err
    rows = [row for part in consumed(broker.bootstrap, topic).values() for row in part]
    written = json.loads(file.read_text())
    assert json.loads(answer.out)["sent"] == written["sent"] == len(rows)
    assert written["ids"] == sorted({key.decode() for key, _ in rows})


def test_a_topic_that_exists_keeps_its_partitions(broker, topic: str):
    for wanted in (2, 5):
        with kafka_outlet(Settings(kafka_bootstrap=broker.bootstrap), topic, partitions=wanted) as outlet:
            outlet.send(weblog(Weblog(events=100)), lambda record: None, threading.Event())
    assert len(consumed(broker.bootstrap, topic)) == 2


def test_after_an_interruption_the_truth_is_of_exactly_what_is_in_the_topic(
    broker, topic: str, tmp_path: Path
):
    options = Weblog(events=200_000, duplicates=0.05, malformed=0.03)
    plan = Production(weblog(options), {}, None, ZoneInfo(ZONE))
    file = tmp_path / "truth.json"
    count = 0

    def on_ack(record: Record) -> None:
        nonlocal count
        count += 1
        if count == 3000:
            signal.raise_signal(signal.SIGINT)

    outlet = kafka_outlet(Settings(kafka_bootstrap=broker.bootstrap), topic, partitions=3)
    summary = run(plan, outlet, rate=0, truth_file=file, on_ack=on_ack)
    rows = [row for part in consumed(broker.bootstrap, topic).values() for row in part]
    assert summary.interrupted
    assert 3000 <= summary.acknowledged == len(rows) < 50_000
    sent = [record for _, record in zip(rows, weblog(options), strict=False)]
    assert json.loads(file.read_text())["ids"] == truth(sent, ZoneInfo(ZONE))["ids"]


def test_a_record_that_is_too_large_is_an_error_after_those_before_it(broker, topic: str):
    acknowledged: list[Record] = []
    good = next(weblog(Weblog(events=1)))
    with (
        pytest.raises(BraidError, match="1 records were acknowledged, then one was not"),
        kafka_outlet(Settings(kafka_bootstrap=broker.bootstrap), topic, partitions=1) as outlet,
    ):
        outlet.send([good, good._replace(value=b"x" * 2_000_000)], acknowledged.append, threading.Event())
    assert acknowledged == [good]


def test_a_name_that_kafka_does_not_allow_is_refused(broker):
    with (
        pytest.raises(BraidError, match="'no/topic' is not a name that Kafka allows"),
        kafka_outlet(Settings(kafka_bootstrap=broker.bootstrap), "no/topic", 1),
    ):
        pytest.fail("connected")


def test_an_unreachable_broker_is_named_within_seconds_and_nothing_is_written(
    braid: Callable, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BRAID_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    start = time.monotonic()
    answer = braid("produce", "--truth", tmp_path / "truth.json")
    assert answer.code == 2
    assert "no Kafka broker answers on 127.0.0.1:1" in answer.err
    assert "braid broker start" in answer.err
    assert "Traceback" not in answer.err
    assert time.monotonic() - start < 10
    assert not (tmp_path / "truth.json").exists()


def test_an_address_that_is_none_is_refused(braid: Callable, home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BRAID_KAFKA_BOOTSTRAP", "localhost:kafka")
    answer = braid("produce")
    assert answer.code == 2
    assert "'localhost:kafka' is not a Kafka address" in answer.err


@pytest.mark.usefixtures("home")
def test_a_project_is_begun_from_what_a_topic_holds(
    broker, topic: str, braid: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BRAID_KAFKA_BOOTSTRAP", broker.bootstrap)
    answer = braid("init", tmp_path / "none", "--from-topic", topic)
    assert answer.code == 2
    assert f"there is no topic {topic!r}" in answer.err.replace("\n", " ")
    assert braid("produce", "--events", 300, "--malformed", 0.1, "--topic", topic).code == 0
    answer = braid("init", tmp_path / "shop", "--from-topic", topic)
    assert answer.code == 0, answer.err
    written = (tmp_path / "shop" / "definitions.py").read_text()
    assert f'kafka_topic="{topic}"' in written
    assert "event_time=" in written
    assert not (tmp_path / "none").exists()
