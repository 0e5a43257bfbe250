"""`braid demo`: the whole story on this machine, or one example, each number checked against the truth."""

import signal
import sys
from typing import Annotated

import typer

from braid.cli.output import Json
from braid.errors import BraidError
from braid.runtime.installation import jars, require

EVENTS = 20_000


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
    require("pyspark", "great_expectations", *(() if name else ("airflow", "fastapi")))
    jars("spark")
    from braid.cli.demo.gallery import play_example
    from braid.cli.demo.story import play_story

    # As on Ctrl-C: what was started is stopped before it ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if name is None:
        play_story(events, json)
    elif events != EVENTS:
        raise BraidError(
            f"--events {events} is for the whole story: example {name!r} brings its own. Leave it out."
        )
    else:
        play_example(name, json)
