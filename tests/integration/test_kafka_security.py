"""Braid comes into a cluster that asks who it is, says clearly when it is not let in, and tells nobody its password."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, NewTopic, ResourcePattern, ResourceType

from braid import kafka_topic, tumbling
from braid.runtime.settings import PREFIX, Settings
from serving_layer.sinks.kafka_topic import KafkaTopic
from tests.conftest import Answer
from tests.processes import command_lines
from tests.secured import PASSWORD, PLAIN_PASSWORD, Secured, secured_broker
from tests.serving import view_of
from tests.sinks import Feeding, begun
from tests.waiting import until

BRAID = str(Path(sys.executable).with_name("braid"))
TOPIC = "requests"
# What docs/security.md says that each user needs, and nothing else.
GRANTED = {
    "writer": (ACLOperation.DESCRIBE, ACLOperation.WRITE),
    "ingest": (ACLOperation.DESCRIBE, ACLOperation.READ),
}
OF_A_SINK = (ACLOperation.CREATE, ACLOperation.DESCRIBE, ACLOperation.READ, ACLOperation.WRITE)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.anonymous)
        admin.create_topics([NewTopic(TOPIC, num_partitions=2, replication_factor=1)])
        pattern = ResourcePattern(ResourceType.TOPIC, TOPIC)
        admin.create_acls(
            [
                ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, pattern)
                for user, operations in GRANTED.items()
                for operation in operations
            ]
        )
        own = ResourcePattern(ResourceType.TOPIC, "made-by-a-sink")
        allow = ACLPermissionType.ALLOW
        admin.create_acls([ACL("User:maker", "*", operation, allow, own) for operation in OF_A_SINK])
        admin.close()
        yield broker


def environment(settings: Settings, home: Path) -> dict[str, str]:
    names = [
        name
        for name in Settings.model_fields
        if name.startswith("kafka") and name in settings.model_fields_set
    ]
    values = {name: getattr(settings, name) for name in names}
    plain = {
        name: value.get_secret_value() if name == "kafka_password" else str(value)
        for name, value in values.items()
    }
    return {f"{PREFIX}{name.upper()}": value for name, value in plain.items()} | {
        "BRAID_HOME": str(home),
        "BRAID_SPARK_MASTER": "local[2]",
        "BRAID_SPARK_MEMORY": "1g",
    }


@pytest.fixture
def as_user(
    kafka: Secured, home: Path, monkeypatch: pytest.MonkeyPatch, braid: Callable[..., Answer]
) -> Callable[..., Callable[..., Answer]]:
    """`braid` as a user of the cluster."""

    def prepared(security: str, **more: str) -> Callable[..., Answer]:
        for name, value in environment(kafka.settings(security, **more), home).items():
            monkeypatch.setenv(name, value)
        return braid

    return prepared


def login(user: str, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
    return {"kafka_user": user, "kafka_password": password, "kafka_mechanism": mechanism}


def everything_written(home: Path) -> Iterator[tuple[Path, bytes]]:
    return ((file, file.read_bytes()) for file in home.rglob("*") if file.is_file())


def test_records_go_in_and_out_with_the_least_that_each_user_may_do(
    as_user: Callable[..., Callable[..., Answer]], spark: Any, home: Path
) -> None:
    produced = as_user("SASL_PLAINTEXT", **login("writer"))("produce", "--events", "50")
    assert produced.code == 0, produced.err
    braid = as_user("SASL_PLAINTEXT", **login("ingest", mechanism="SCRAM-SHA-256"))
    ingested = braid("ingest", "requests", "--once")
    assert ingested.code == 0, ingested.err
    books = braid("ledger", "requests", "--json")
    assert books.code == 0, books.err
    assert braid("doctor", "--json").code == 0
    shown = [
        produced,
        ingested,
        books,
        braid("log", "requests", "--json"),
        braid("status", "--json"),
        braid("views"),
    ]
    assert not any(PASSWORD in answer.out + answer.err for answer in shown)
    assert [str(file) for file, content in everything_written(home) if b"quoted" in content] == []


def test_a_plan_that_is_printed_hides_the_login(kafka: Secured, spark: Any) -> None:
    from braid.examples.weblog import requests
    from speed_layer.ingest.records import kafka_options

    settings = kafka.settings("SASL_PLAINTEXT", **login("ingest"))
    rows = spark.read.format("kafka").options(**kafka_options(requests, settings)).load()
    execution = rows._jdf.queryExecution()
    modes = spark._jvm.org.apache.spark.sql.execution.ExplainMode
    printed = [execution.toString(), execution.explainString(modes.fromString("extended"))]
    assert "quoted" not in "".join(printed)


def test_an_encrypted_connection_carries_the_whole_flow(
    as_user: Callable[..., Callable[..., Answer]], kafka: Secured, spark: Any
) -> None:
    plain = login("writer", PLAIN_PASSWORD, "PLAIN")
    assert as_user("SASL_SSL", kafka_ca_file=kafka.authority, **plain)("produce", "--events", "20").code == 0
    braid = as_user("SASL_SSL", kafka_ca_file=kafka.authority, **login("ingest", mechanism="SCRAM-SHA-512"))
    assert braid("ingest", "requests", "--once").code == 0


def test_a_certificate_says_who_a_client_is(
    as_user: Callable[..., Callable[..., Answer]],
    kafka: Secured,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {"kafka_ca_file": kafka.authority, "kafka_client_file": kafka.client_file}
    braid = as_user("SSL", **files)
    assert braid("produce", "--events", "20").code == 0
    assert braid("ingest", "requests", "--once").code == 0
    monkeypatch.delenv("BRAID_KAFKA_CLIENT_FILE")
    assert braid("doctor", "--json").code == 2


@pytest.mark.parametrize(
    ("command", "how"),
    [
        (("produce", "--events", "5"), "err"),
        (("ingest", "requests", "--once"), "err"),
        (("doctor", "--json"), "out"),
    ],
)
def test_a_wrong_password_is_named_with_its_user_and_what_to_check(
    as_user: Callable[..., Callable[..., Answer]], spark: Any, command: tuple[str, ...], how: str
) -> None:
    start = time.monotonic()
    answer = as_user("SASL_PLAINTEXT", **login("writer", "not the password"))(*command)
    assert answer.code == 2
    said = getattr(answer, how)
    assert "does not let user 'writer' in" in said
    assert "BRAID_KAFKA_PASSWORD" in said
    assert "Traceback" not in answer.err
    assert "not the password" not in answer.err + answer.out
    assert time.monotonic() - start < 20


def test_an_authority_that_did_not_sign_is_named(
    kafka: Secured, as_user: Callable[..., Callable[..., Answer]], tmp_path: Path
) -> None:
    from tests.secured import make_certificates

    make_certificates(tmp_path)
    strange = {"kafka_ca_file": str(tmp_path / "authority.pem"), **login("writer")}
    answer = as_user("SASL_SSL", **strange)("produce", "--events", "5")
    assert answer.code == 2
    assert "cannot agree on TLS" in answer.err
    assert "BRAID_KAFKA_CA_FILE" in answer.err
    assert "Traceback" not in answer.err


def test_what_a_user_may_not_do_is_named(as_user: Callable[..., Callable[..., Answer]], spark: Any) -> None:
    written = as_user("SASL_PLAINTEXT", **login("ingest"))("produce", "--events", "5")
    assert written.code == 2
    assert "user 'ingest'" in written.err
    assert "Traceback" not in written.err
    unseen = as_user("SASL_PLAINTEXT", **login("stranger"))("produce", "--events", "5")
    assert unseen.code == 2
    assert "user 'stranger' sees no topic 'requests' and may not create it" in unseen.err
    read = as_user("SASL_PLAINTEXT", **login("stranger"))("ingest", "requests", "--once")
    assert read.code == 2
    assert "no topic 'requests'" in read.err


def test_a_sink_whose_topic_it_may_not_use_says_so_before_and_while_it_runs(
    kafka: Secured, home: Path
) -> None:
    def asked(user: str, topic: str) -> str:
        settings = kafka.settings("SASL_PLAINTEXT", **login(user))
        return KafkaTopic(kafka_topic(topic), settings, str(home)).problem() or ""

    assert "does not allow user 'stranger' to do that" in asked("stranger", "elsewhere")
    # It sees the topic, and that is not enough: a sink reads what it has written.
    assert "does not allow user 'ingest' to write to topic 'requests'" in asked("ingest", TOPIC)
    assert "does not allow user 'writer' to read topic 'requests'" in asked("writer", TOPIC)
    settings = kafka.settings("SASL_PLAINTEXT", home=str(home), **login("ingest"))
    begun(settings, tumbling("1 minute"))
    sink = kafka_topic(TOPIC)
    feeding = Feeding(settings, sink, KafkaTopic(sink, settings, str(home / "sinks")))
    assert not feeding.delivering.turn()
    assert "does not allow user 'ingest' to write to" in (feeding.delivering.status().error or "")
    assert PASSWORD not in asked("ingest", TOPIC) + str(feeding.delivering.status())


def test_who_may_create_a_topic_is_told_so_and_nothing_is_made(kafka: Secured, home: Path) -> None:
    settings = kafka.settings("SASL_PLAINTEXT", home=str(home), **login("maker"))
    sink = KafkaTopic(kafka_topic("made-by-a-sink"), settings, str(home))
    assert sink.problem() is None
    admin = KafkaAdminClient(bootstrap_servers=kafka.anonymous)
    assert "made-by-a-sink" not in admin.list_topics()
    assert sink.held(view_of(tumbling("1 minute"))).state == {}
    assert "made-by-a-sink" in admin.list_topics()
    admin.close()
    # And now it has all that it needs there.
    assert sink.problem() is None


def test_no_process_has_the_password_on_its_command_line(kafka: Secured, home: Path, tmp_path: Path) -> None:
    settings = kafka.settings("SASL_PLAINTEXT", **login("ingest"))
    with (tmp_path / "said").open("w") as said:
        engine = subprocess.Popen(
            [BRAID, "ingest", "requests"],
            env=os.environ | environment(settings, home) | {"BRAID_LOG_LEVEL": "debug"},
            stdout=said, stderr=said,
        )  # fmt: skip
    try:
        until(lambda: "ingest started" in (tmp_path / "said").read_text(), 120)
        seen = command_lines(engine.pid)
        assert "java" in seen
        assert not any("quoted" in word for words in seen.values() for word in words)
    finally:
        engine.terminate()
        engine.wait(60)
    assert "quoted" not in (tmp_path / "said").read_text()
    assert [str(file) for file, content in everything_written(home) if b"quoted" in content] == []
