"""Puts the commands together."""

from importlib import import_module
from typing import Annotated

import typer

from braid.runtime import logging as logs
from braid.runtime.settings import current_settings

COMMANDS = (
    "demo.command",
    "platform.setup",
    "platform.doctor",
    "platform.broker",
    "platform.cluster",
    "definitions",
    "produce",
    "speed.log",
    "speed.stream",
    "speed.run",
    "speed.plan",
    "speed.kappa",
    "batch.commands",
    "serving.compare",
    "platform.airflow",
    "platform.standby",
    "serving.query",
    "serving.serve",
    "serving.sql",
    "serving.sink",
    "serving.alerts",
    "serving.monitor",
    "platform.up",
)

app = typer.Typer(
    name="braid",
    help="One definition of each number: batch recomputes it, streaming keeps it fresh, serving braids the two "
    "into one exact answer.\n\nStart with `braid doctor` (is this machine ready?) and `braid demo` (the whole "
    "flow). Exit codes: 0 ok, 1 a check failed, 2 bad input.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"braid {version('braid')}")
        raise typer.Exit


@app.callback()
def prepare(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_tell_version, help="Show the version and exit."),
    ] = False,
) -> None:
    settings = current_settings()
    logs.configure(settings.log_level, settings.log_format)


for name in COMMANDS:
    import_module(f"braid.cli.{name}").register(app)
