"""The embedded broker keeps what it acknowledged, and never stays behind."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from braid.errors import BraidError
from braid.infra import broker as embedded
from braid.infra import brokers
from braid.infra.services.service import port_is_taken
from braid.runtime.settings import Settings
from tests.conftest import Answer, free_port


@pytest.fixture
def node(tmp_path: Path) -> Iterator[embedded.Broker]:
    broker = embedded.Broker(tmp_path / "broker", free_port(), free_port())
    yield broker
    embedded.stop(broker)


def send(bootstrap: str, topic: str, values: list[bytes]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for value in values:
        producer.send(topic, value)
    producer.close()


def received(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    values = [next(consumer).value for _ in range(count)]
    consumer.close()
    return values


def test_messages_survive_a_kill_9_and_a_restart(node: embedded.Broker) -> None:
    first = embedded.start(node)
    send(node.bootstrap, "kept", [b"one", b"two"])
    assert first.pid is not None
    process = psutil.Process(first.pid)
    os.kill(first.pid, signal.SIGKILL)
    process.wait(10)
    assert not embedded.status(node).running
    second = embedded.start(node)
    assert second.pid != first.pid
    assert second.cluster_id == first.cluster_id
    assert received(node.bootstrap, "kept", 2) == [b"one", b"two"]


def test_starting_twice_keeps_the_one_that_runs(node: embedded.Broker) -> None:
    assert embedded.start(node).pid == embedded.start(node).pid


def test_a_second_broker_on_a_taken_port_is_refused_with_the_setting_to_change(
    broker: embedded.Broker, tmp_path: Path
) -> None:
    rival = embedded.Broker(tmp_path / "rival", broker.port, free_port())
    with pytest.raises(BraidError, match=f"port {broker.port} .* taken .* BRAID_KAFKA_PORT"):
        embedded.start(rival)
    assert not embedded.status(rival).running


def test_a_broker_that_cannot_start_leaves_no_process_behind(node: embedded.Broker) -> None:
    embedded.start(node)
    embedded.stop(node)
    (node.folder / "data" / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=7\n")
    with pytest.raises(BraidError, match="does not answer"):
        embedded.start(node)
    assert not embedded.status(node).running


def test_arrival_is_stamped_by_the_broker(node: embedded.Broker) -> None:
    assert "log.message.timestamp.type=LogAppendTime" in embedded.server_properties(node)


def test_the_commands_start_report_and_stop(
    braid: Callable[..., Answer], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_KAFKA_PORT", str(free_port()))
    monkeypatch.setenv("BRAID_KAFKA_CONTROLLER_PORT", str(free_port()))
    assert braid("broker", "status").code == 1
    assert braid("broker", "start").code == 0
    try:
        assert json.loads(braid("broker", "status", "--json").out)["answers"] is True
        assert json.loads(braid("doctor", "--json").out)["ok"] is True
    finally:
        stopped = braid("broker", "stop")
    assert "has stopped" in stopped.out
    assert json.loads(braid("broker", "status", "--json").out)["running"] is False
    assert (home / "broker" / "data").is_dir()
    monkeypatch.setenv("BRAID_KAFKA_NODES", "3")
    refused = braid("broker", "start")
    assert refused.code == 2
    assert "holds the data of a cluster of 1 and BRAID_KAFKA_NODES=3 is another" in refused.err


def neighbours(count: int) -> int:
    """The first of so many ports in a row that are all free."""
    while True:
        first = free_port()
        if first + count < 65536 and not any(port_is_taken(first + n) for n in range(count)):
            return first


def test_three_nodes_are_one_cluster_and_one_of_them_can_be_lost(
    braid: Callable[..., Answer], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = neighbours(6)
    monkeypatch.setenv("BRAID_KAFKA_PORT", str(first))
    monkeypatch.setenv("BRAID_KAFKA_CONTROLLER_PORT", str(first + 1))
    monkeypatch.setenv("BRAID_KAFKA_NODES", "3")
    try:
        started = braid("broker", "start")
        assert started.code == 0, started.err
        assert braid("produce", "--events", "50", "--partitions", "3").code == 0
        three = json.loads(braid("broker", "status", "--json").out)
        assert three["answers"] is True
        assert len({node["pid"] for node in three["nodes"]}) == 3
        admin = KafkaAdminClient(bootstrap_servers=three["bootstrap"])
        (topic,) = admin.describe_topics(["requests"])
        admin.close()
        assert [len(partition["replica_nodes"]) for partition in topic["partitions"]] == [3, 3, 3]
        victim = psutil.Process(three["nodes"][0]["pid"])
        victim.kill()
        victim.wait(10)
        left = braid("broker", "status", "--json")
        assert left.code == 1
        assert [node["running"] for node in json.loads(left.out)["nodes"]] == [False, True, True]
        again = braid("produce", "--events", "50", "--seed", "2")
        assert again.code == 0, again.err
        assert braid("broker", "start").code == 0
        assert json.loads(braid("broker", "status", "--json").out)["answers"] is True
    finally:
        braid("broker", "stop")
    assert json.loads(braid("broker", "status", "--json").out)["running"] is False


def test_ports_that_would_be_given_twice_are_refused(home: Path) -> None:
    with pytest.raises(BraidError, match=r"the same port twice \(9000, 9002, 9004, 9002"):
        brokers.embedded_cluster(Settings(kafka_nodes=3, kafka_port=9000, kafka_controller_port=9002))
