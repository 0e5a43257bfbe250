"""One of three brokers is killed while records flow: nothing is lost, nothing is counted twice."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from braid.infra import brokers
from braid.infra.brokers import Brokers
from braid.tables.commits import newest_commit
from speed_layer.jobs.engine import stream
from speed_layer.ledger.balance import take_stock
from tests.conftest import free_port
from tests.faults.stage import Command, Stage, assert_exact
from tests.waiting import until

EVENTS = 12_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Brokers]:
    three = brokers.make_cluster(
        [tmp_path / f"broker-{number}" for number in (1, 2, 3)],
        [free_port() for _ in range(3)],
        [free_port() for _ in range(3)],
    )
    brokers.start(three)
    yield three
    brokers.stop(three)


@pytest.fixture
def stage(new_stage: Callable[..., Stage], cluster: Brokers) -> Stage:
    return new_stage(
        kafka_bootstrap=cluster.bootstrap, epoch="5 seconds", fold_every="10 seconds", trigger="0 seconds"
    )


def kill(cluster: Brokers, number: int) -> None:
    pid = brokers.status(cluster).nodes[number].pid
    assert pid is not None
    process = psutil.Process(pid)
    os.kill(pid, signal.SIGKILL)
    process.wait(10)


def consumed(stage: Stage) -> int:
    newest = newest_commit(stage.log.table)
    return sum(newest.end.values()) - sum(newest.start.values()) if newest else 0


def send(stage: Stage, truth: Path, seed: int, events: int, rate: int) -> Command:
    disorder = "--late 0.2 --duplicates 0.05 --malformed 0.03 --out-of-order 0.1"
    options = (
        f"--topic {stage.source.kafka_topic} --seed {seed} --events {events} --rate {rate} --truth {truth}"
    )
    return stage.run("produce", *options.split(), *disorder.split())


def true_ids(truth: Path) -> list[str]:
    return list(json.loads(truth.read_text())["ids"])


@pytest.mark.soak
@pytest.mark.parametrize("victim", [0, 2])
def test_a_broker_of_three_dies_under_load_and_no_number_changes(
    stage: Stage, cluster: Brokers, tmp_path: Path, victim: int
) -> None:
    first = send(stage, tmp_path / "first", seed=1, events=500, rate=0)
    assert first.ended() == 0, first.said
    engine = stage.run("stream", "--ingest")
    until(lambda: Path(stage.log.checkpoint, "commits", "0").exists())
    sending = send(stage, tmp_path / "second", seed=2, events=EVENTS, rate=300)
    until(lambda: consumed(stage) > 1000)
    kill(cluster, victim)
    before = consumed(stage)
    until(lambda: consumed(stage) > before + 1000)
    assert sending.process.poll() is None, "nothing was sent while the broker was down"
    assert not brokers.status(cluster).nodes[victim].running
    assert sending.ended(300) == 0, sending.said
    # The dead one comes back, and catches up.
    assert brokers.start(cluster).answers
    assert engine.stop() == 0, engine.said
    stream(stage.spark, stage.views, stage.settings, sources=[stage.source], only=True, once=True)
    books = take_stock(stage.log)
    assert books.balanced, books
    assert books.waiting == 0
    assert stage.accepted_ids() == sorted(true_ids(tmp_path / "first") + true_ids(tmp_path / "second"))
    assert_exact(stage)
