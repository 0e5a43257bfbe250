"""Plays one example on this machine, from its events to its numbers, checked against a naive truth."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from braid.cli.demo.own_platform import free_port, step
from braid.cli.demo.tables import check_table, result_table
from braid.cli.output import console, failed, print_json, say
from braid.runtime import logging as logs
from braid.runtime.settings import Settings, current_settings
from braid.runtime.spark import spark_session
from examples.stage import play_of
from examples.stage.checks import Played
from examples.stage.stage import Stage
from infra.kafka import brokers

# An epoch is closed before the next begins; a demo does not wait a minute for that.
EPOCH = timedelta(seconds=1)


def play_example(name: str, json: bool) -> None:
    """Plays it and prints what came of it; exit code 1 if a number is not the true one."""
    play, started = play_of(name), time.monotonic()
    # What is done is said step by step; what the engine says of it would stand in between.
    logs.configure("warning", current_settings().log_format)
    home = current_settings().local_home() / "gallery" / name
    shutil.rmtree(home, ignore_errors=True)
    with _stage(_settings(home)) as stage:
        played = play(stage)
    if json:
        print_json({"example": name, **played.as_dict()})
    else:
        _print(name, played, home, time.monotonic() - started)
    if not played.ok:
        raise failed(json, "the example's numbers are not the true ones: see the table.")


def _settings(home: Path) -> Settings:
    """As they are, but for a home and a broker of its own on ports that are free now."""
    own = {
        "home": str(home),
        "kafka_bootstrap": "",
        "kafka_security": "PLAINTEXT",
        "kafka_nodes": 1,
        "epoch": EPOCH,
    }
    ports = {name: free_port() for name in ("kafka_port", "kafka_controller_port")}
    return current_settings().model_copy(update=own | ports)


@contextmanager
def _stage(settings: Settings) -> Iterator[Stage]:
    """From here to the end of the block; nobody is left behind."""
    cluster = brokers.embedded_cluster(settings)
    try:
        with step("starting Kafka and Spark"):
            brokers.start(cluster)
            spark = spark_session(settings, "braid-demo")
        yield Stage(spark, settings, step)
        spark.stop()
    finally:
        brokers.stop(cluster)


def _print(name: str, played: Played, home: Path, seconds: float) -> None:
    for shown in played.results:
        console.print(result_table(shown))
    console.print(check_table(played.checks))
    say(f"{seconds:.0f} seconds. The definitions: examples/{name}/__init__.py; the data: {home}")
