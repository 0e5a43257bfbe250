"""Avro with a real schema registry: a producer of another house, evolved schemas, ids that nobody knows."""

import json
import subprocess
import sys
import threading
import urllib.request
import uuid
from base64 import b64encode
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from braid import Source
from braid.errors import BraidError
from braid.infra.broker import Broker
from braid.log.table import Log
from braid.runtime.settings import Settings
from speed_layer.ingest.quarantine import requeue
from tests.avro_producer import FIRST, SECOND, framed
from tests.conftest import free_port
from tests.ingesting import rows, run
from tests.kafka import create_topic, send
from tests.registry import register, schema_registry

pytestmark = pytest.mark.soak

SCHEMA = (
    "id string, placed timestamp, country string, amount decimal(10,2), items bigint, due date, tags array<string>, "
    "channel string"
)
COUNTRIES = ("DE", "FR", None)
ROOT = Path(__file__).parents[2]


def order(number: int) -> dict[str, Any]:
    return {
        "id": f"o-{number}",
        "placed": f"2024-05-{1 + number % 5:02}T0{number % 10}:12:00.{number % 1000:03}+00:00",
        "country": COUNTRIES[number % 3],
        "amount": f"{number % 90}.{number % 100:02}",
        "items": number % 7,
        "due": None if number % 4 else "2024-06-01",
        "tags": ["a", "ü"][: number % 3],
    }


@dataclass(frozen=True)
class Shop:
    """A topic of Avro, and the registry that knows its schemas."""

    bootstrap: str
    topic: str
    registry: str

    def produce(self, first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
        asked = {"bootstrap": self.bootstrap, "topic": self.topic, "registry": self.registry}
        done = subprocess.run(
            [sys.executable, "-m", "tests.avro_producer"], cwd=ROOT, capture_output=True, text=True, check=False,
            input=json.dumps(asked | {"first": first, "second": second}), timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with schema_registry(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture
def shop(broker: Broker, registry: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    topic = f"avro-{uuid.uuid4().hex}"
    create_topic(broker.bootstrap, topic)
    monkeypatch.setenv("BRAID_REGISTRY_MAIN", registry)
    return Shop(broker.bootstrap, topic, registry)


@pytest.fixture
def orders(shop: Shop, settings: Settings) -> Log:
    source = Source(
        name="orders", kafka_topic=shop.topic, schema=SCHEMA, event_time="placed", event_id="id",
        format="avro", registry="main", rules={"a price is not negative": "amount >= 0"},
    )  # fmt: skip
    return Log(source, settings)


def held(spark: Any, log: Log) -> list[Any]:
    columns = [name.partition(" ")[0] for name in log.source.columns]
    return sorted(
        rows(spark, log).where("_error is null").select(*columns).collect(), key=lambda row: str(row.id)
    )


def reasons(spark: Any, log: Log) -> list[str]:
    return sorted(row["_error"] for row in rows(spark, log).where("_error is not null").collect())


def test_an_evolved_schema_in_the_middle_gives_the_numbers_of_the_same_events_as_json(
    spark: Any, shop: Shop, orders: Log, settings: Settings
) -> None:
    first = [order(number) for number in range(60)]
    second = [order(number) | {"channel": "shop"} for number in range(60, 120)]
    shop.produce(first, [*second, second[0], order(7) | {"id": "o-x", "amount": "-1.00"}])
    run(spark, orders)
    twin = f"json-{uuid.uuid4().hex}"
    create_topic(shop.bootstrap, twin)
    without_due = [{name: value for name, value in event.items() if name != "due"} for event in second]
    send(shop.bootstrap, twin, [json.dumps(event).encode() for event in (*first, *without_due)])
    as_json = Log(
        replace(orders.source, name="twin", kafka_topic=twin, format="json", registry=None), settings
    )
    run(spark, as_json)
    found = held(spark, orders)
    assert len(found) == 120
    assert found == held(spark, as_json)
    assert reasons(spark, orders) == ["broken rule: a price is not negative"]


def test_what_the_registry_does_not_know_is_quarantined_with_the_reason_and_mended_by_a_requeue(
    spark: Any, shop: Shop, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = register(shop.registry, f"{shop.topic}-value", FIRST)
    coming = SECOND | {"name": f"Order{uuid.uuid4().hex[:8]}"}
    # Ids are given one after the other.
    unknown = register(shop.registry, f"{shop.topic}-other", coming | {"name": f"{coming['name']}Before"}) + 1
    good, early = framed(known, FIRST, order(1)), framed(unknown, coming, order(2) | {"channel": "web"})
    damaged = [b"\0" + known.to_bytes(4, "big") + b"\x04a", b'{"id": "plain"}', b"", good + b"left"]
    send(shop.bootstrap, shop.topic, [good, early, *damaged])
    run(spark, orders)
    assert [row.id for row in held(spark, orders)] == ["o-1"]
    assert reasons(spark, orders) == sorted(
        [
            f"unknown schema: the registry 'main' has none with the id {unknown}",
            f"unparsable: no record of schema {known}",
            f"unparsable: no record of schema {known}",
            "unparsable: no Avro record with the id of a schema",
            "unparsable: empty record",
        ]
    )
    assert register(shop.registry, f"{uuid.uuid4().hex}-value", coming) == unknown
    assert requeue(spark, orders, f"unknown schema: the registry 'main' has none with the id {unknown}") == 1
    # That there is none is believed for some seconds; under another name of the machine it is asked anew.
    monkeypatch.setenv("BRAID_REGISTRY_MAIN", shop.registry.replace("127.0.0.1", "localhost"))
    run(spark, orders)
    assert [(row.id, row.channel) for row in held(spark, orders)] == [("o-1", None), ("o-2", "web")]


class Asking(BaseHTTPRequestHandler):
    """Stands before the registry and lets in only who says who he is."""

    behind = ""
    refused = 0

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Basic {b64encode(b'me:s@cret').decode()}":
            type(self).refused += 1
            self.send_response(401)
            self.end_headers()
            return
        with urllib.request.urlopen(self.behind + self.path, timeout=30) as answer:
            body = answer.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def test_a_registry_that_asks_who_we_are_is_told_and_no_command_line_shows_it(
    spark: Any, shop: Shop, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Asking, "behind", shop.registry)
    shop.produce([order(number) for number in range(5)], [])
    with HTTPServer(("127.0.0.1", 0), Asking) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("BRAID_REGISTRY_MAIN", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(BraidError, match=r"the schema registry 'main' answers 401"):
            run(spark, orders)
        assert Asking.refused > 0
        monkeypatch.setenv("BRAID_REGISTRY_MAIN", f"http://me:s%40cret@127.0.0.1:{server.server_port}")
        run(spark, orders)
        server.shutdown()
    assert len(held(spark, orders)) == 5
    assert "s@cret" not in str(spark.sparkContext.getConf().getAll())


def test_a_registry_that_is_away_loses_nothing(
    spark: Any, shop: Shop, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.produce([order(number) for number in range(5)], [])
    monkeypatch.setenv("BRAID_REGISTRY_MAIN", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(BraidError, match=r"the schema registry 'main' does not answer"):
        run(spark, orders)
    monkeypatch.setenv("BRAID_REGISTRY_MAIN", shop.registry)
    run(spark, orders)
    assert len(held(spark, orders)) == 5
    assert reasons(spark, orders) == []
