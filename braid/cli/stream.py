"""`braid stream`: keeps every view's tail up to date."""

import signal
import threading
from typing import Annotated

import typer

from braid.definitions import load_definitions
from braid.settings import current_settings

Views = Annotated[
    list[str] | None, typer.Argument(help="Views by name; all when none is given.", metavar="[VIEW]...")
]


def register(app: typer.Typer) -> None:
    app.command()(stream)


def stop_on_signals() -> threading.Event:
    """Set by Ctrl-C and SIGTERM: what runs ends between two micro-batches."""
    stop = threading.Event()

    def set_it(*_: object) -> None:
        # From a thread of its own: the main one may be within `stop.wait`, and hold the lock that `set` wants.
        threading.Thread(target=stop.set).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, set_it)
    return stop


def stream(
    names: Views = None,
    once: Annotated[bool, typer.Option("--once", help="Read what is there now, then stop.")] = False,
    ingest: Annotated[
        bool,
        typer.Option("--ingest", help="Also run the ingest of their sources, in the same Spark application."),
    ] = False,
) -> None:
    """Keep the views' tails up to date from the log, each event exactly once, until Ctrl-C or SIGTERM.

    Every deployed version of a view has a stream of its own; one that fails is retried and does not stop the others.
    It may be killed at any moment and started again.

    Example: `braid stream page_traffic --once`
    """
    from braid.spark import spark_session
    from speed_layer.engine import stream as run

    settings = current_settings()
    definitions = load_definitions(settings.definitions)
    views = [definitions.view(name) for name in names] if names else list(definitions.views.values())
    sources = (
        list({view.source.name: view.source for view in views}.values())
        if names
        else list(definitions.sources.values())
    )
    stop = stop_on_signals()
    run(
        spark_session(settings, "braid stream"),
        views,
        settings,
        sources=sources if ingest else (),
        only=bool(names),
        once=once,
        stop=stop,
    )
