"""`braid run --once`: everything brought up to date in one Spark application, which then ends."""

import typer

from braid.cli.batch.board import show_results
from braid.cli.options import Once, progress
from braid.cli.output import Json
from braid.define.loading import load_definitions
from braid.errors import BraidError
from braid.runtime.settings import current_settings
from braid.runtime.signals import stop_on_signals


def register(app: typer.Typer) -> None:
    app.command()(run)


def run(once: Once = False, json: Json = False) -> None:
    """Bring everything up to date with one start of Spark: ingest what is there, stream it, compute the days due.

    The same as `braid ingest --once`, `braid stream --once` and `braid batch run`, one after the other, in the time of
    about one of them. A day that a gate holds is exit code 1. It may be killed at any moment and started again.

    Example: `braid run --once`
    """
    if not once:
        raise BraidError(
            "`braid run` ends when everything is up to date: write `braid run --once`. `braid up` runs for good."
        )
    from batch_layer.plan import lambda_views
    from batch_layer.run import run as compute
    from batch_layer.tasks import Asked
    from braid.runtime.spark import spark_session
    from speed_layer.jobs.engine import stream

    settings = current_settings()
    definitions = load_definitions(settings.definitions)
    views = list(definitions.views.values())
    spark = spark_session(settings, "braid run")
    with stop_on_signals() as stop:
        stream(spark, views, settings, sources=list(definitions.sources.values()), once=True, stop=stop)
        if stop.is_set():
            raise typer.Exit(130)
    with progress() as watch:
        results = compute(lambda: spark, settings, lambda_views(views), Asked(), watch=watch)
    show_results(results, json)
