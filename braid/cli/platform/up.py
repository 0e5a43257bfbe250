"""`braid doctor`, `version`, `up` and `status`: is this machine ready, all of Braid at once, and how it does."""

import platform
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from braid.cli.output import Json, console, failed, mark, print_json, print_table, say
from braid.cli.platform.watch import watching
from braid.define.codec import braid_version
from braid.define.loading import Definitions, load_definitions
from braid.errors import BraidError
from braid.runtime.installation import jars, require
from braid.runtime.settings import Settings, current_settings
from braid.runtime.signals import stop_on_signals
from braid.runtime.status import (
    ENGINE,
    SINKS,
    SUPERVISOR,
    ProcessStatus,
    QueryStatus,
    forget,
    is_alive,
    problems,
    read_all,
    report,
    under_supervision,
)

if TYPE_CHECKING:
    from braid.infra.services.children import Startable

PACKAGES = (
    "pyspark",
    "delta-spark",
    "kafka-python",
    "apache-airflow",
    "great-expectations",
    "duckdb",
    "deltalake",
)

SERVING = "serving"


def doctor(json: Json = False) -> None:
    """Check this machine: Java, versions, jars, ports, disk, permissions, broker; and say how to mend each.

    Exit code 2 when something has to be mended first.
    """
    from rich.table import Table

    from braid.infra.doctor import examine

    checks = examine(current_settings())
    healthy = all(check.ok for check in checks)
    if json:
        shown = [check._asdict() | {"fix": None if check.ok else check.fix} for check in checks]
        print_json({"ok": healthy, "checks": shown})
    else:
        table = Table("check", "", "found", "how to mend it", title="braid doctor", title_justify="left")
        for check in checks:
            table.add_row(check.name, mark(check.ok), check.detail, "" if check.ok else check.fix)
        console.print(table)
    if not healthy:
        raise typer.Exit(2)


def _installed(package: str) -> str:
    try:
        return installed_version(package)
    except PackageNotFoundError:
        return "not installed"


def version(json: Json = False) -> None:
    """Print the versions of Braid and of what it runs on."""
    versions = {"braid": braid_version(), "python": platform.python_version()}
    versions |= {name: _installed(name) for name in PACKAGES}
    if json:
        print_json(versions)
    else:
        console.print("\n".join(f"{name} {value}" for name, value in versions.items()), highlight=False)


def up() -> None:
    """Run everything until Ctrl-C or SIGTERM: the broker (if embedded), ingest, all streams, serving, and sinks.

    What dies is started again, after 1 s, 2 s, 4 s and so on up to a minute. http://127.0.0.1:8470/health says whether
    all is well (200 or 503, with the reasons), /metrics says it to Prometheus; BRAID_HEALTH_PORT is another port.

    Example: `braid up`, and `braid status` in another terminal
    """
    from braid.infra.services.health import health_server
    from braid.infra.services.supervisor import supervise

    settings = current_settings()
    require("pyspark", "fastapi")
    jars("spark")
    children = _children(settings, load_definitions(settings.definitions))
    _refuse_a_second_one(settings)
    settings.make_home()
    with (
        stop_on_signals() as stop,
        health_server(settings, lambda: under_supervision(read_all(settings))),
        watching(settings) as watch,
    ):
        supervise(children, stop=stop, say=watch.say, on_round=watch.on_round)
    for process in under_supervision(read_all(settings)):
        forget(settings, process.process)


def _children(settings: Settings, definitions: Definitions) -> "list[Startable]":
    """What runs, in the order of starting; a further process of the platform is a further line."""
    from braid.infra.brokers import embedded_cluster
    from braid.infra.services.children import BrokerChild, Child

    children: list[Startable] = []
    if settings.uses_embedded_broker and any(source.kafka_topic for source in definitions.sources.values()):
        children.append(BrokerChild(embedded_cluster(settings)))
    children.append(
        Child(ENGINE, _braid("stream", "--ingest"), ready=lambda: _has_reported(settings, ENGINE))
    )
    children.append(Child(SERVING, _braid("serve"), ready=lambda: _answers(settings)))
    if definitions.alerts or any(view.sinks for view in definitions.views.values()):
        children.append(Child(SINKS, _braid("sink", "run"), ready=lambda: _has_reported(settings, SINKS)))
    return children


def _braid(*arguments: str) -> tuple[str, ...]:
    return (str(Path(sys.executable).with_name("braid")), *arguments)


def _answers(settings: Settings) -> bool:
    """Whether somebody listens where serving is to listen."""
    try:
        with socket.create_connection((settings.serve_host, settings.serve_port), timeout=1):
            return True
    except OSError:
        return False


def _has_reported(settings: Settings, process: str) -> bool:
    return any(known.process == process and is_alive(known) for known in read_all(settings))


def _refuse_a_second_one(settings: Settings) -> None:
    for process in read_all(settings):
        if process.process in {SUPERVISOR, ENGINE} and is_alive(process):
            raise BraidError(
                f"{process.process} runs already on {settings.home} (process {process.pid}): `braid status` shows it. "
                "Stop it first, or set BRAID_HOME to another folder."
            )


def status(
    json: Json = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print Prometheus' text.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit code 1 unless all is healthy.")] = False,
) -> None:
    """Show what runs and how it does: events, rows per second, micro-batch time, lag, late events, newest epoch.

    Example: `braid status --check`
    """
    processes, now = read_all(current_settings()), datetime.now(UTC)
    if prometheus:
        from braid.runtime.metrics import prometheus as prometheus_text

        print(prometheus_text(processes), end="")
    elif json:
        print_json(report(processes, now))
    else:
        _print(processes, now)
    found = problems(processes, now)
    if check and found:
        raise failed(json or prometheus, "not healthy: see above.")


def _print(processes: list[ProcessStatus], now: datetime) -> None:
    if processes:
        rows = (row for process in processes for row in _process_rows(process))
        print_table("processes", ("process", "state", "id", "since", "restarts"), rows)
    queries = [(query, is_alive(process)) for process in processes for query in process.queries]
    if queries:
        columns = ("query", "state", "events", "rows/s", "batch", "lag", "late", "epoch")
        print_table("queries", columns, (_query_row(query, alive) for query, alive in queries))
    for process in processes:
        if process.spark_ui and is_alive(process):
            say(f"Spark's pages of {process.process}: {process.spark_ui}")
    for problem in problems(processes, now):
        say(problem)


def _process_rows(process: ProcessStatus) -> Iterator[tuple[object, ...]]:
    alive = is_alive(process)
    yield (
        process.process,
        "running" if alive else "not running",
        process.pid,
        f"{process.started:%m-%d %H:%M:%S}",
        None,
    )
    for child in process.children:
        yield f"  {child.name}", child.state if alive else "not running", child.pid, None, child.restarts


def _query_row(query: QueryStatus, alive: bool) -> tuple[str | None, ...]:
    lags = (
        None if query.lag_events is None else f"{query.lag_events:,} events",
        None if query.lag_seconds is None else f"{query.lag_seconds:.1f} s",
        f"{left:,.0f} s left" if (left := query.seconds_left) is not None and left >= 1 else None,
    )
    return (
        query.name,
        query.state if alive else "not running",
        f"{query.events:,}",
        None if query.rows_per_second is None else f"{query.rows_per_second:,.0f}",
        None if query.batch_ms is None else f"{query.batch_ms:,.0f} ms",
        ", ".join(lag for lag in lags if lag),
        f"{query.late:,}",
        None if query.epoch is None else f"{query.epoch:%m-%d %H:%M:%S}",
    )
