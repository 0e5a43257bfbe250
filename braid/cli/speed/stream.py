"""`braid stream`: keeps every view's tail up to date."""

from typing import Annotated

import typer

from braid.define.loading import load_definitions
from braid.runtime.settings import current_settings
from braid.runtime.signals import stop_on_signals

Views = Annotated[
    list[str] | None, typer.Argument(help="Views by name; all when none is given.", metavar="[VIEW]...")
]


def register(app: typer.Typer) -> None:
    app.command()(stream)


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
    from braid.runtime.spark import spark_session
    from speed_layer.jobs.engine import stream as run

    settings = current_settings()
    definitions = load_definitions(settings.definitions)
    views = [definitions.view(name) for name in names] if names else list(definitions.views.values())
    sources = (
        list({view.source.name: view.source for view in views}.values())
        if names
        else list(definitions.sources.values())
    )
    with stop_on_signals() as stop:
        run(
            spark_session(settings, "braid stream"),
            views,
            settings,
            sources=sources if ingest else (),
            only=bool(names),
            once=once,
            stop=stop,
        )
