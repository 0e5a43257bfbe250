"""Plays one example on this machine, checked against a naive truth, and shows checks and results as tables."""

import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from braid.cli.demo.own_platform import step
from braid.cli.output import console, failed, mark, print_json, say
from braid.examples.stage import play_of
from braid.examples.stage.checks import Played, Shown, TruthCheck, text
from braid.examples.stage.stage import Stage
from braid.infra import brokers
from braid.infra.services.service import free_port
from braid.runtime import logging as logs
from braid.runtime.settings import Settings, current_settings
from braid.runtime.spark import spark_session

WIDTH = 28
COLOURS = ("blue", "yellow")
# An epoch is closed before the next begins; a demo does not wait a minute for that.
EPOCH = timedelta(seconds=1)


def check_table(checks: Iterable[TruthCheck]) -> Table:
    """Each check with what was found beside what is true."""
    table = Table("check", "", "found", "expected", title="Braid against the truth", title_justify="left")
    for check in checks:
        table.add_row(check.name, mark(check.ok), escape(check.found), escape(check.expected))
    return table


def result_table(shown: Shown) -> Table:
    """For a terminal: numbers to the right, and bars beside them."""
    table = Table(title=shown.title, title_justify="left", header_style="bold")
    for at, name in enumerate(shown.columns):
        is_number = all(isinstance(row[at], int | float | Decimal) for row in shown.rows)
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    if shown.drawn and not shown.lines:
        table.add_column("")
    largest = max(map(sum if shown.stacked else max, _drawn(shown)), default=0.0) if shown.drawn else 0.0
    for row, values in zip(shown.rows, _drawn(shown), strict=True):
        table.add_row(*(escape(text(cell)) for cell in row), *_bar(shown, values, WIDTH / (largest or 1.0)))
    return table


def _drawn(shown: Shown) -> list[list[float]]:
    return [[float(row[shown.columns.index(name)]) for name in shown.drawn] for row in shown.rows]


def _bar(shown: Shown, values: Sequence[float], scale: float) -> tuple[str, ...]:
    if not values or shown.lines:
        return ()
    blocks = ("█" * (round(value * scale) or (value > 0)) for value in values)
    coloured = (f"[{colour}]{block}[/]" for colour, block in zip(COLOURS, blocks, strict=False))
    return (("" if shown.stacked else "\n").join(coloured),)


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
