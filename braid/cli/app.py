"""The `braid` command itself: its help, and the module in which each command is."""

from importlib import import_module
from typing import Annotated

import typer

from braid.runtime import logging as logs
from braid.runtime.settings import current_settings

# Where each command and each group of commands is, in the order in which help lists them.
COMMANDS = {
    "demo": "demo.command",
    "setup": "platform.setup",
    "init": "project",
    "test": "project",
    "doctor": "platform.up",
    "version": "platform.up",
    "check": "definitions",
    "views": "definitions",
    "show": "definitions",
    "produce": "produce",
    "log": "speed.log",
    "ledger": "speed.log",
    "ingest": "speed.stream",
    "stream": "speed.stream",
    "recover": "speed.log",
    "maintain": "speed.stream",
    "run": "speed.stream",
    "plan": "speed.plan",
    "apply": "speed.plan",
    "compare": "serving.compare",
    "standby": "platform.standby",
    "query": "serving.query",
    "tail": "serving.query",
    "serve": "serving.serve",
    "sql": "serving.sql",
    "alerts": "serving.sink",
    "up": "platform.up",
    "status": "platform.up",
}
GROUPS = {
    "broker": "platform.services",
    "cluster": "platform.services",
    "quarantine": "speed.log",
    "kappa": "speed.kappa",
    "batch": "batch.commands",
    "airflow": "platform.services",
    "sink": "serving.sink",
    "monitor": "serving.serve",
}

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


for name, place in COMMANDS.items():
    app.command()(getattr(import_module(f"braid.cli.{place}"), name))
for name, place in GROUPS.items():
    app.add_typer(getattr(import_module(f"braid.cli.{place}"), name), name=name)
