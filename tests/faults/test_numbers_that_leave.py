"""Everything at once: generator, engine, a restatement and a promotion, while engine and database are killed."""

import json
import os
import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kafka import KafkaConsumer, TopicPartition

from braid.infra import broker as embedded
from serving_layer.answer.json_values import plain
from tests.faults.stage import BRAID, Stage, has_batches
from tests.postgres import Server, a_server
from tests.waiting import until

pytestmark = pytest.mark.soak

KILLS = 5
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
    """Looks at the table all the time, and keeps every set of versions that it has seen."""

    def __init__(self, dsn: str) -> None:
        self._dsn, self.stop, self.seen = dsn, threading.Event(), set[tuple[int, ...]]()
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
                    while not self.stop.wait(0.01):
                        rows = connection.execute("SELECT DISTINCT _version FROM page_traffic").fetchall()
                        self.seen.add(tuple(sorted(version for (version,) in rows)))
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


def test_table_and_topic_are_what_is_asked_for_after_all_that_can_happen(
    stage: Stage, server: Server, broker: embedded.Broker
) -> None:
    moments = random.Random(7)
    topic = f"out-{stage.source.kafka_topic}"
    stage.environment["BRAID_DSN_WAREHOUSE"] = server.dsn
    define(stage, topic, "status < 600")
    disorder = "--late 0.2 --duplicates 0.05 --malformed 0.03 --out-of-order 0.1"
    options = f"--topic {stage.source.kafka_topic} --events 2000000 --rate 100 {disorder}"
    sending = stage.run("produce", *options.split())
    sinks = stage.run("sink", "run")
    with MixtureReader(server.dsn) as reader:
        for kill in range(KILLS):
            engine = stage.run("stream", "--ingest", BRAID_LOG_LEVEL="debug")
            engine.wait_for("batch committed")
            if kill in (1, 3):
                server.stop(kill=True)
                server.start()
            if kill == 2:
                view = next(view for view in stage.views if view.name == "page_traffic")
                until(lambda view=view: has_batches(stage, view, 3))
                stage.run("batch", "run", "--view", "page_traffic").ended(600)
            if kill == 3:
                define(stage, topic, "status < 500")
                applied = stage.run("apply", "page_traffic")
                assert applied.ended(600) == 0, applied.said
            if kill == 4:
                # Sinks die too, and are told of another definition.
                sinks.process.kill()
                sinks.ended()
                sinks = stage.run("sink", "run")
            # Not a wait for something to be ready: the moment itself is what is tried.
            threading.Event().wait(moments.uniform(0, 3))
            engine.kill("both")
        engine = stage.run("stream", "--ingest", BRAID_LOG_LEVEL="debug")
        engine.wait_for("batch committed")
        sending.stop()
        assert engine.stop() == 0, engine.said

        def rows() -> list[str]:
            return texts(asked(stage, "query", "page_traffic")["rows"])

        expected = rows()
        until(lambda: in_postgres(stage, server) == expected, 120)
        until(lambda: in_topic(broker.bootstrap, topic) == expected, 120)
        assert len(expected) > 10
    assert sinks.stop() == 0, sinks.said
    assert {len(versions) for versions in reader.seen} <= {0, 1}, reader.seen
    assert {(1,), (2,)} <= reader.seen
    spots = {json.dumps([e["keys"], e["window_start"]]) for e in asked(stage, "alerts", "--limit", "100000")}
    assert spots
