"""`braid demo`: the flow on this machine, from a broker to a view's numbers, each checked against the truth."""

import json as jsonlib
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from braid.cli.output import Json, console, errors, mark, print_json
from braid.errors import CheckFailed
from braid.settings import Settings, current_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from braid.log import Log


@dataclass(frozen=True)
class Check:
    """A number of ours beside the true one."""

    name: str
    ok: bool
    found: str
    expected: str


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    json: Json = False,
    events: Annotated[int, typer.Option(min=100, help="How many different events to make up.")] = 30_000,
) -> None:
    """Run the flow on this machine: broker, generator, ingest, ledger, a view; and check each number.

    The web log that it sends is as nasty as life: late, duplicate, malformed and out of order. Exit code 0 only if all
    numbers equal the generator's own record of what it sent. It works in a folder of its own below BRAID_HOME.
    """
    started = time.monotonic()
    home = current_settings().local_home() / "demo"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    settings = current_settings().model_copy(
        update={
            "home": str(home),
            "definitions": "examples.weblog",
            "kafka_bootstrap": "",
            "kafka_port": _free_port(),
            "kafka_controller_port": _free_port(),
        }
    )
    checks = _run(settings, events)
    if json:
        print_json({"ok": all(c.ok for c in checks), "checks": [asdict(c) for c in checks]})
    else:
        table = Table("check", "", "found", "expected", title="Braid against the truth", title_justify="left")
        for check in checks:
            table.add_row(check.name, mark(check.ok), check.found, check.expected)
        console.print(table)
        console.print(f"{time.monotonic() - started:.0f} seconds; everything is in {home}", highlight=False)
    if not all(check.ok for check in checks):
        raise (
            typer.Exit(1) if json else CheckFailed("the demo's numbers are not the true ones: see the table.")
        )


def _run(settings: Settings, events: int) -> list[Check]:
    from braid.log import Log
    from braid.spark import spark_session
    from examples.weblog import requests
    from infra import broker as embedded
    from speed_layer.ingest import ingest
    from speed_layer.ledger import take_stock

    node = embedded.embedded_broker(settings)
    with _step("starting Spark and writing a Delta table"):
        spark = spark_session(settings, "braid demo")
        checks = [_delta(spark, settings)]
    try:
        with _step(f"starting a Kafka broker on {node.bootstrap}"):
            checks.append(_equal("the broker answers", embedded.start(node).answers, True))
        with _step(f"sending {events} events and their mess"):
            truth = _send(settings, events)
        with _step("ingesting them into the log"):
            ingest(spark, [requests], settings, once=True)
        log = Log(requests, settings)
        with _step("balancing the ledger"):
            books = take_stock(spark, log)
        consumed = sum(account.consumed for account in books.accounts)
        checks += [
            _equal("every record sent was consumed", consumed, truth["sent"]),
            _equal("the ledger balances", books.balanced, True),
            _equal("duplicates dropped", sum(a.duplicates for a in books.accounts), truth["duplicates"]),
        ]
        with _step("comparing the log and a view with the truth"):
            checks += _log_checks(spark, log, truth)
            checks.append(_view_check(spark, log, truth))
    finally:
        embedded.stop(node)
    return checks


def _send(settings: Settings, events: int) -> dict[str, Any]:
    from braid.produce.run import Plan, run
    from braid.produce.sender import kafka_outlet
    from braid.produce.weblog import Weblog, weblog
    from examples.weblog import requests

    options = Weblog(
        events=events,
        timezone=requests.timezone,
        late=0.20,
        duplicates=0.05,
        malformed=0.03,
        out_of_order=0.10,
    )
    plan = Plan(weblog(options), asdict(options) | {"start": options.start.isoformat()}, None, requests.zone)
    file = Path(settings.home) / "truth.json"
    outlet = kafka_outlet(settings.bootstrap, str(requests.kafka_topic), 3)
    run(plan, outlet, rate=0, truth_file=file, on_ack=lambda record: None)
    truth: dict[str, Any] = jsonlib.loads(file.read_text())
    return truth


def _delta(spark: "SparkSession", settings: Settings) -> Check:
    place = settings.location("hello")
    spark.range(1000).write.format("delta").save(place)
    return _equal("Delta gives back what was written", spark.read.format("delta").load(place).count(), 1000)


def _log_checks(spark: "SparkSession", log: "Log", truth: dict[str, Any]) -> list[Check]:
    from pyspark.sql import functions as F

    from braid import log as logs
    from braid.produce.truth import ids_digest

    rows = logs.read(spark, log)
    accepted = rows.where("_error is null")
    ids = [row.id for row in accepted.select("id").collect()]
    reasons = rows.where("_error is not null").groupBy(
        F.split_part("_error", F.lit(":"), F.lit(1)).alias("reason")
    )
    by_reason = {row.reason: row["count"] for row in reasons.count().collect()}
    by_day = accepted.groupBy("day").agg(F.count("*").alias("events"), F.sum("bytes").alias("bytes"))
    days = {str(row.day): [row.events, row.bytes] for row in by_day.collect()}
    true_days = {day: [numbers["events"], numbers["bytes"]] for day, numbers in truth["days"].items()}
    return [
        _equal("accepted events", len(ids), truth["accepted"]),
        _equal("their ids (SHA-256)", ids_digest(ids), truth["ids_sha256"]),
        _equal("rejected records, by reason", by_reason, truth["rejected_by_reason"]),
        _equal("events and bytes of each day", days, true_days),
    ]


def _view_check(spark: "SparkSession", log: "Log", truth: dict[str, Any]) -> Check:
    """`page_traffic` by day, through the same states that every layer computes with."""
    from pyspark.sql import functions as F

    from braid import log as logs
    from braid.events import read_lookup, view_events
    from braid.states.spark import prepare, present
    from examples.weblog import page_traffic

    events = view_events(page_traffic, logs.read(spark, log), lambda lookup: read_lookup(spark, lookup))
    numbers = present(page_traffic, prepare(page_traffic, events), grain="1 day")
    day = F.to_date(F.from_utc_timestamp("window_start", F.lit(page_traffic.source.timezone)))
    rows = numbers.select(day.cast("string").alias("day"), "url", "hits", "bytes").collect()
    found = {(row.day, row.url, row.hits, None if row.bytes is None else int(row.bytes)) for row in rows}
    true = {(page["day"], page["url"], page["hits"], page["bytes"]) for page in truth["page_traffic"]}
    both = len(found & true)
    said = (
        f"{both} of {len(true)} page-days equal" if found == true else f"{len(found ^ true)} page-days differ"
    )
    return Check("page_traffic: hits and bytes per day", found == true, said, f"{len(true)} page-days")


def _equal(name: str, found: object, expected: object) -> Check:
    return Check(name, found == expected, _short(found), _short(expected))


def _short(value: object) -> str:
    text = "\n".join(f"{k}: {v}" for k, v in sorted(value.items())) if isinstance(value, dict) else str(value)
    return text if len(text) < 64 or "\n" in text else f"{text[:12]}..."


@contextmanager
def _step(what: str) -> Iterator[None]:
    """Says what is being done while it is done, and how long it took."""
    started = time.monotonic()
    with errors.status(f"{what} ..."):
        yield
    errors.print(f"  {what}: {time.monotonic() - started:.1f} s", highlight=False)


def _free_port() -> int:
    """The demo must not disturb a broker that runs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
