"""Ingest is killed at any moment, the broker is restarted under load: nothing is lost, nothing is counted twice."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from braid.examples.weblog import requests
from braid.infra import broker as embedded
from braid.log.table import Log
from braid.produce.outlet import kafka_outlet
from braid.produce.run import Production, run
from braid.produce.weblog import Weblog, weblog
from braid.runtime.settings import Settings
from braid.tables.commits import newest_commit
from speed_layer.ingest.run import ingest
from speed_layer.ledger.balance import take_stock
from tests.conftest import free_port
from tests.waiting import until

KILLS = 10
BRAID = str(Path(sys.executable).with_name("braid"))


def produce(bootstrap: str, topic: str, truth: Path, seed: int, events: int) -> dict[str, Any]:
    """Late, duplicate and malformed events; the answer to what was acknowledged."""
    options = Weblog(events=events, seed=seed, late=0.2, duplicates=0.05, malformed=0.03, out_of_order=0.1)
    plan = Production(weblog(options), asdict(options) | {"start": str(options.start)}, None, requests.zone)
    outlet = kafka_outlet(Settings(kafka_bootstrap=bootstrap), topic, 3)
    run(plan, outlet, rate=0, truth_file=truth, on_ack=lambda record: None)
    answer: dict[str, Any] = json.loads(truth.read_text())
    return answer


def accepted_ids(spark: Any, log: Log) -> list[str]:
    rows = spark.read.format("delta").load(log.table).where("_error is null")
    return sorted(row.id for row in rows.select("id").collect())


def start_ingest(environment: dict[str, str]) -> "subprocess.Popen[str]":
    """Returns once its query runs: every later moment is one at which it may be killed."""
    process = subprocess.Popen(
        [BRAID, "ingest"], env=os.environ | environment, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if "ingest started" in line:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process
    raise AssertionError("".join(seen))


@pytest.fixture
def topic(broker: embedded.Broker, home: Path, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """A topic of this test's own, and the environment in which `braid ingest` reads it."""
    name = f"t-{uuid.uuid4().hex}"
    definitions = tmp_path / "definitions.py"
    definitions.write_text(
        "from dataclasses import replace\nfrom braid.examples import weblog\n"
        f"requests = replace(weblog.requests, kafka_topic={name!r})\n"
    )
    return name, {
        "BRAID_HOME": str(home),
        "BRAID_DEFINITIONS": str(definitions),
        "BRAID_KAFKA_BOOTSTRAP": broker.bootstrap,
        "BRAID_TRIGGER": "0 seconds",
        "BRAID_SPARK_MASTER": "local[2]",
        "BRAID_SPARK_MEMORY": "1g",
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly_and_closes_its_epoch(
    spark: Any,
    broker: embedded.Broker,
    home: Path,
    tmp_path: Path,
    topic: tuple[str, dict[str, str]],
    number: signal.Signals,
) -> None:
    name, environment = topic
    true_ids = produce(broker.bootstrap, name, tmp_path / "truth", seed=1, events=2000)["ids"]
    log = Log(replace(requests, kafka_topic=name), Settings(home=str(home), kafka_bootstrap=broker.bootstrap))
    process = start_ingest(environment)
    until(lambda: Path(log.checkpoint, "commits", "0").exists())
    process.send_signal(number)
    assert process.wait(60) == 0
    newest = newest_commit(log.table)
    assert newest is not None
    assert newest.beat
    assert accepted_ids(spark, log) == true_ids


@pytest.mark.soak
def test_ten_kills_at_random_moments_lose_nothing_and_count_nothing_twice(
    spark: Any, broker: embedded.Broker, home: Path, tmp_path: Path, topic: tuple[str, dict[str, str]]
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    moments = random.Random(seed)
    name, environment = topic
    true_ids: list[str] = []
    for kill in range(KILLS):
        true_ids += produce(broker.bootstrap, name, tmp_path / f"truth-{kill}", seed=kill, events=2000)["ids"]
        process = start_ingest(environment)
        pause = threading.Event()
        # Not a wait for something to be ready: the moment itself is what is tried.
        pause.wait(moments.uniform(0, 6))
        process.kill()
        process.wait()
    settings = Settings(home=str(home), kafka_bootstrap=broker.bootstrap, spark_master="local[2]")
    log = Log(replace(requests, kafka_topic=name), settings)
    ingest(spark, [log.source], settings, once=True)
    books = take_stock(log)
    assert books.balanced, books
    assert accepted_ids(spark, log) == sorted(true_ids)


@pytest.mark.soak
@pytest.mark.parametrize("how", ["kill -9", "clean"])
def test_a_broker_that_is_restarted_under_load_loses_nothing(
    spark: Any, home: Path, tmp_path: Path, how: str
) -> None:
    node = embedded.Broker(tmp_path / "broker", free_port(), free_port())
    settings = Settings(home=str(home), kafka_bootstrap=node.bootstrap, spark_master="local[2]")
    log, stop, truth = Log(requests, settings), threading.Event(), tmp_path / "second"
    first = embedded.start(node)
    try:
        known = produce(node.bootstrap, str(requests.kafka_topic), tmp_path / "first", seed=1, events=500)[
            "ids"
        ]
        ingesting = threading.Thread(target=ingest, args=(spark, [requests], settings), kwargs={"stop": stop})
        ingesting.start()
        until(lambda: Path(log.checkpoint, "commits", "0").exists())
        command = (
            f"produce --seed 2 --events 6000 --rate 800 --duplicates 0.05 --malformed 0.03 --truth {truth}"
        )
        environment = os.environ | {"BRAID_KAFKA_BOOTSTRAP": node.bootstrap}
        sending = subprocess.Popen([BRAID, *command.split()], env=environment)
        until(lambda: accepted_count(spark, log) > len(known))
        if how == "clean":
            embedded.stop(node)
        else:
            assert first.pid is not None
            process = psutil.Process(first.pid)
            process.kill()
            process.wait(10)
        embedded.start(node)
        assert sending.wait() == 0
        true_ids = sorted([*known, *json.loads(truth.read_text())["ids"]])
        until(lambda: accepted_count(spark, log) == len(true_ids))
        stop.set()
        ingesting.join()
        books = take_stock(log)
    finally:
        stop.set()
        embedded.stop(node)
    assert books.balanced, books
    assert accepted_ids(spark, log) == true_ids


def accepted_count(spark: Any, log: Log) -> int:
    return int(spark.read.format("delta").load(log.table).where("_error is null").count())
