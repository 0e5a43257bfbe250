"""A log of web requests, for the tests of ingest."""

import uuid
from pathlib import Path

import pytest

from braid import Source
from braid.infra.broker import Broker
from braid.log.table import Log
from braid.runtime.settings import Settings
from tests.kafka import create_topic

RULES = {"status is an HTTP code": "status between 100 and 599"}


@pytest.fixture
def settings(home: Path, broker: Broker) -> Settings:
    return Settings(home=str(home), kafka_bootstrap=broker.bootstrap, spark_master="local[2]")


@pytest.fixture
def source(broker: Broker) -> Source:
    topic = f"t-{uuid.uuid4().hex}"
    create_topic(broker.bootstrap, topic)
    return Source(
        name="requests", kafka_topic=topic, schema="id string, time timestamp, status int, bytes bigint",
        event_time="time", event_id="id", timezone="America/New_York", rules=RULES,
    )  # fmt: skip


@pytest.fixture
def log(source: Source, settings: Settings) -> Log:
    return Log(source, settings)
