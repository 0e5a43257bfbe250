"""Everything at once: generator, engine, a restatement and a promotion, while engine and database are killed."""

import json
import os
import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kafka import KafkaConsumer, TopicPartition

from braid.deploy import store as deployment
from braid.infra import broker as embedded
from serving_layer.alerts.judge import OVER
from serving_layer.answer.json_values import plain
from tests.faults.stage import (
    BRAID,
    ENDLESS,
    INTERRUPTED,
    Command,
    Stage,
    has_batches,
    send,
    states_of,
    true_ids,
)
from tests.postgres import Server, a_server
from tests.streams import recomputed
from tests.waiting import until

pytestmark = pytest.mark.soak

KILLS = 5
COMPUTE = ("batch", "run", "--view", "page_traffic")
SINKS = """
from braid import Alert, kafka_topic, postgres
page_traffic = replace(page_traffic, where={where!r}, sinks=(
    postgres("warehouse", table="page_traffic"), kafka_topic({topic!r})))
busy = Alert(name="busy", view=page_traffic, when="hits >= 2", on="updates")
"""
HIDDEN = ("_key", "_view", "_version", "_revision", "_complete")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with a_server() as running:
        yield running


@pytest.fixture
def stage(new_stage: Callable[..., Stage], broker: embedded.Broker) -> Stage:
    return new_stage(kafka_bootstrap=broker.bootstrap, epoch="5 seconds", trigger="0 seconds")


class MixtureReader:
    """Looks at the table all the time: the versions that were in it, one after the other."""

    def __init__(self, dsn: str) -> None:
        self._dsn, self.stop, self.seen = dsn, threading.Event(), list[tuple[int, ...]]()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "MixtureReader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self.stop.wait(0.05):
            try:
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=2) as connection:
                    while not self.stop.wait(0.05):
                        rows = connection.execute("SELECT DISTINCT _version FROM page_traffic").fetchall()
                        versions = tuple(sorted(version for (version,) in rows))
                        # Before the first rows are there, it is empty.
                        if versions not in self.seen[-1:] and (versions or self.seen):
                            self.seen.append(versions)
            except psycopg.Error:
                continue


def define(stage: Stage, topic: str, where: str) -> None:
    file = Path(stage.settings.definitions)
    file.write_text(
        file.read_text().split("\nfrom braid import Alert")[0] + SINKS.format(topic=topic, where=where)
    )


def asked(stage: Stage, *words: str) -> Any:
    done = subprocess.run(
        [BRAID, *words, "--json"],
        env=os.environ | stage.environment,
        check=True,
        capture_output=True,
        timeout=600,
    )
    return json.loads(done.stdout)


def texts(rows: Any) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def in_postgres(stage: Stage, server: Server) -> list[str]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        cursor = connection.execute("SELECT * FROM page_traffic")
        names = [column.name for column in cursor.description or ()]
        zone = stage.source.zone
        found = [
            {n: plain(v, zone) for n, v in zip(names, row, strict=True) if n not in HIDDEN} for row in cursor
        ]
    return texts(found)


def in_topic(bootstrap: str, topic: str) -> list[str]:
    """By a reader that knows nothing of Braid: of each key the record with the largest revision."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends, kept = consumer.end_offsets(places), dict[bytes, Any]()
    said = dict[tuple[bytes, int], bytes]()
    while any(consumer.position(place) < ends[place] for place in places):
        for records in consumer.poll(timeout_ms=500).values():
            for record in records:
                value = json.loads(record.value)
                assert said.setdefault((record.key, value["revision"]), record.value) == record.value
                if record.key not in kept or kept[record.key]["revision"] <= value["revision"]:
                    kept[record.key] = value
    consumer.close()
    bounds = ("window_start", "window_end")
    return texts(
        one["keys"] | one["numbers"] | {"_status": one["status"]} | {name: one[name] for name in bounds}
        for one in kept.values()
        if one["change"] != "withdrawn"
    )


def has_candidate(stage: Stage) -> bool:
    return len(deployment.load(stage.settings, "page_traffic").versions) == 2


def live_and_die(stage: Stage, server: Server, topic: str, moments: random.Random) -> Command:
    """Engines are killed while days are computed and a version is promoted. Gives the process of the sinks."""
    sinks = stage.run("sink", "run")
    # What goes on over the death of the engine beside which it began.
    beside: list[Command] = []
    for kill in range(KILLS):
        engine = stage.run("stream", "--ingest", BRAID_LOG_LEVEL="debug")
        engine.wait_for("batch committed")
        for command in beside:
            assert command.ended(600) == 0, command.said
            print(command.said)
        beside.clear()
        if kill == 0:
            until(lambda: has_batches(stage, stage.view("page_traffic"), 2))
        if kill == 1:
            beside.append(stage.run(*COMPUTE))
        if kill == 2:
            beside.append(stage.run(*COMPUTE, "--stale"))
        if kill == 3:
            define(stage, topic, "status < 500")
            beside.append(stage.run("apply", "page_traffic"))
            until(lambda: has_candidate(stage))
        if kill == 4:
            # Sinks die too, and are told of another definition.
            sinks.process.kill()
            sinks.ended()
            sinks = stage.run("sink", "run")
        for command in beside:
            until(lambda command=command: bool(command.java()))
        if kill in (1, 3):
            server.stop(kill=True)
            server.start()
        # Not a wait for something to be ready: the moment itself is what is tried.
        threading.Event().wait(moments.uniform(0, 5))
        engine.kill("both")
    engine = stage.run("stream", "--ingest", BRAID_LOG_LEVEL="debug")
    engine.wait_for("batch committed")
    assert engine.stop() == 0, engine.said
    return sinks


def test_table_and_topic_are_what_is_asked_for_after_all_that_can_happen(
    stage: Stage, server: Server, broker: embedded.Broker, tmp_path: Path
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    topic = f"out-{stage.source.kafka_topic}"
    stage.environment["BRAID_DSN_WAREHOUSE"] = server.dsn
    define(stage, topic, "status < 600")
    sending = send(stage, tmp_path / "truth", ENDLESS, rate=30)
    with MixtureReader(server.dsn) as reader:
        sinks = live_and_die(stage, server, topic, random.Random(seed))
        assert sending.stop() == INTERRUPTED
        stage.finish()
        rows = asked(stage, "query", "page_traffic")["rows"]
        expected = texts(rows)
        until(lambda: in_postgres(stage, server) == expected, 120)
        until(lambda: in_topic(broker.bootstrap, topic) == expected, 120)
        until(lambda: spots_of_alerts(stage) == spots_of_rows(rows), 120)
    assert sinks.stop() == 0, sinks.said
    # Never both, and nothing in between.
    assert reader.seen == [(1,), (2,)]
    # And what is asked for is the truth.
    assert stage.accepted_ids() == true_ids(tmp_path / "truth")
    view = stage.view("page_traffic")
    assert states_of(stage, view, 2) == recomputed(stage.spark, view, stage.settings)
    assert len(expected) > 10
    assert 0 < len(spots_of_rows(rows)) < len(rows)


def spots_of_rows(rows: list[dict[str, Any]]) -> set[str]:
    """Where the alert's condition is true."""
    return {spot({"url": row["url"]}, row["window_start"]) for row in rows if row["hits"] >= 2}


def spots_of_alerts(stage: Stage) -> set[str]:
    """Where the alert has fired and was not taken back."""
    found = asked(stage, "alerts", "--limit", "1000000")
    return {
        spot(one["keys"], one["window_start"])
        for one in found
        if one["state"] == "firing" or one["reason"] == OVER
    }


def spot(keys: dict[str, Any], start: str) -> str:
    return json.dumps([keys, datetime.fromisoformat(start).astimezone(UTC).isoformat()], sort_keys=True)
