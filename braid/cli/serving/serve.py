"""`braid serve` and `braid monitor`: the views over HTTP with a page to look at them, and what watches the server."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from braid.define.loading import Definitions, load_definitions
from braid.log.table import Log
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings, bytes_of, current_settings
from braid.runtime.signals import stop_on_signals
from braid.runtime.status import read_all, report

if TYPE_CHECKING:
    from serving_layer.http.app import OtherLayers

# What takes a look at whole tables is looked at that seldom, however many ask.
SECONDS = 5.0

log = Logger("serve")

monitor = typer.Typer(no_args_is_help=True, help="What Prometheus and Grafana need to watch the platform.")


def serve(
    host: Annotated[str | None, typer.Option(help="Address to answer on; BRAID_SERVE_HOST.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to answer on; BRAID_SERVE_PORT.")
    ] = None,
) -> None:
    """Answer questions over HTTP, with a dashboard at / and the API's document at /docs, until Ctrl-C or SIGTERM.

    It listens on 127.0.0.1 unless it is told otherwise; another address needs BRAID_SERVE_TOKEN, which clients send as
    'Authorization: Bearer ...'.

    Example: `braid serve --port 8471`
    """
    import pyarrow as pa

    from braid.states.database import limit_database
    from serving_layer.http.app import Limits, create_app
    from serving_layer.http.server import serve as run
    from serving_layer.memory.all_views import AllViews

    settings = current_settings()
    address, at = host or settings.serve_host, port or settings.serve_port
    views = AllViews(settings, bytes_of(settings.serve_memory))
    limits = Limits(
        settings.serve_states, settings.serve_timeout.total_seconds(),
        streams=settings.serve_streams, connections=settings.serve_connections,
    )  # fmt: skip
    # A processor is left to those who follow the views and answer probes.
    threads = max(1, (os.cpu_count() or 1) - 1)
    limit_database(bytes_of(settings.serve_query_memory), threads)
    pa.set_cpu_count(threads)
    token = settings.serve_token.get_secret_value()
    app = create_app(views, other_layers(settings, views.definitions), limits, host=address, token=token)
    with stop_on_signals() as stop:
        log.info("serving", dashboard=f"http://{address}:{at}/", api=f"http://{address}:{at}/docs")
        run(app, address, at, stop, limits)


def other_layers(settings: Settings, definitions: Definitions | None = None) -> "OtherLayers":
    """What the other layers know, for the API to tell: only the command line may ask them all."""
    from batch_layer.gates import data_docs
    from serving_layer.answer.ledger import LogLedger
    from serving_layer.http.app import OtherLayers

    known = definitions or load_definitions(settings.definitions)
    ledgers = {name: LogLedger(Log(source, settings)) for name, source in known.sources.items()}
    return OtherLayers(
        days=_remembered(lambda name: _days(settings, known, name)),
        ledger=_remembered(lambda name: ledgers[name].summary()),
        accuracy=_remembered(lambda name: _accuracy(settings, name)),
        status=lambda: report(read_all(settings), datetime.now(UTC)),
        processes=lambda: read_all(settings),
        data_docs=partial(data_docs.opened, settings),
    )


def _days(settings: Settings, definitions: Definitions, name: str) -> list[dict[str, Any]]:
    from batch_layer.plan import lambda_views, plan
    from braid.cli.batch.board import board_rows

    views = [view for view in lambda_views(definitions.views.values()) if view.name == name]
    planned = [day for source in plan(settings, views) for day in source.days]
    return [{key: _plain(value) for key, value in row.items()} for row in board_rows(planned)]


def _accuracy(settings: Settings, name: str) -> dict[str, Any]:
    """By day, what readers had before its publish; the rest from the last comparison."""
    from batch_layer.days import read_days
    from braid.deploy import store as deployment
    from braid.tables.view_tables import ViewTables
    from serving_layer.accuracy.report.history import accuracy_summary

    active = deployment.load(settings, name).active
    records = read_days(ViewTables.of(settings, active)) if active else {}
    days = []
    for day, record in sorted(records.items()):
        if record.publish and record.publish.accuracy:
            found = record.publish.accuracy
            days.append(
                {"day": str(day), "share": found.share, "cut": record.publish.cut.isoformat()} | asdict(found)
            )
    compared = accuracy_summary(settings, name)
    # A kappa view has no publishes: its days are those that were compared.
    return compared | {"days": days or compared["days"]}


def _remembered(ask: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same, asked by one at a time and not more often than people look."""
    answers: dict[str, tuple[float, Any]] = {}
    turn = threading.Lock()

    def asking(name: str) -> Any:
        with turn:
            when, answer = answers.get(name, (-SECONDS, None))
            if time.monotonic() - when >= SECONDS:
                answer = ask(name)
                answers[name] = time.monotonic(), answer
            return answer

    return asking


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


@monitor.command()
def rules() -> None:
    """Print alert rules for Prometheus, one or more for each runbook. Example: `braid monitor rules > braid.yml`"""
    import yaml

    from serving_layer.http.monitoring import prometheus_rules

    print(yaml.safe_dump(prometheus_rules(), sort_keys=False, width=200), end="")


@monitor.command()
def dashboard() -> None:
    """Print a dashboard for Grafana to import. Example: `braid monitor dashboard > braid.json`"""
    from braid.cli.output import print_json
    from serving_layer.http.monitoring import grafana_dashboard

    print_json(grafana_dashboard())
