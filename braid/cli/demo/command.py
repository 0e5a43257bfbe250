"""`braid demo`: the whole story on this machine, each number checked against the truth."""

import shutil
import signal
import sys
import time
from dataclasses import asdict
from typing import Annotated

import typer

from braid.cli.demo.stage import Stage, make_stage, playing
from braid.cli.demo.story import story
from braid.cli.demo.tables import check_table
from braid.cli.output import Json, console, errors, failed, print_json
from braid.errors import BraidError
from braid.runtime.settings import current_settings
from braid.runtime.signals import stop_on_signals
from examples.stage.checks import Check

EVENTS = 20_000


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    name: Annotated[
        str | None, typer.Argument(help="An example to play instead: one of the gallery in docs/examples.")
    ] = None,
    json: Json = False,
    events: Annotated[int, typer.Option(min=1000, help="How many different events to make up.")] = EVENTS,
) -> None:
    """Play the whole story on this machine, and check each number.

    Kafka, a generator of late, duplicate and malformed events, ingest, streams, the API and its dashboard; three days
    backfilled by Airflow, a restatement, a Kappa replay with parity, the accuracy report. Exit code 0 only if all
    numbers equal the generator's own record of what it sent. It works in a folder of its own below BRAID_HOME. On a
    terminal it serves on until Ctrl-C.

    With a NAME it plays that example instead, in a minute or two: its events through batch, stream and Kappa, each
    number compared with a naive truth. Example: `braid demo words`
    """
    if name is not None:
        from braid.cli.demo.gallery import play_example

        if events != EVENTS:
            raise BraidError(
                f"--events {events} is for the whole story: example {name!r} brings its own. Leave it out."
            )
        play_example(name, json)
        return
    # As on Ctrl-C: what was started is stopped before it ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    home = current_settings().local_home() / "demo"
    shutil.rmtree(home, ignore_errors=True)
    stage = make_stage(home)
    with playing(stage):
        errors.print(f"  the dashboard: {stage.api}/", highlight=False)
        checks = story(stage, events)
        if json:
            print_json(
                {"ok": all(check.ok for check in checks), "checks": [asdict(check) for check in checks]}
            )
        else:
            _print(stage, checks, time.monotonic() - started)
            if sys.stdout.isatty() and sys.stdin.isatty():
                _serve_on(stage)
    if not all(check.ok for check in checks):
        raise failed(json, "the demo's numbers are not the true ones: see the table.")


def _print(stage: Stage, checks: list[Check], seconds: float) -> None:
    console.print(check_table(checks))
    console.print(
        f"{seconds:.0f} seconds; the report on accuracy: {stage.home / 'accuracy.html'}", highlight=False
    )


def _serve_on(stage: Stage) -> None:
    console.print(f"The dashboard is at {stage.api}/ until Ctrl-C.", highlight=False)
    with stop_on_signals() as stop:
        stop.wait()
