"""A log of web requests, for the tests of ingest; and a home without a broker, for those of streams and bases."""

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from braid import Source
from braid.infra.broker import Broker
from braid.log.table import Log
from braid.runtime.settings import Settings
from tests.kafka import create_topic
from tests.streams import Feed
from tests.streams import requests as web_requests

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


@pytest.fixture
def at_home(home: Path) -> Settings:
    """Settings without a broker, with which streams fold every two minutes of their log."""
    return Settings(
        home=str(home), spark_master="local[2]", kafka_bootstrap="127.0.0.1:1", fold_every=timedelta(minutes=2)
    )  # fmt: skip


@pytest.fixture
def feed(spark: Any, at_home: Settings) -> Feed:
    return Feed(spark, Log(web_requests, at_home))
