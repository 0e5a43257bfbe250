"""`braid ingest`, `stream`, `run` and `maintain`: what keeps logs, tails and days up to date, and tables small."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from braid.cli.batch.board import show_results
from braid.cli.health import Health, seen
from braid.cli.options import Once, SourceNames, ViewNames, progress, sources_of
from braid.cli.output import Json, console, print_json, print_values
from braid.define.derived.base import with_inputs
from braid.define.durations import parse_duration
from braid.define.loading import load_definitions
from braid.deploy.store import Pausable, set_pause
from braid.errors import BraidError
from braid.runtime.settings import current_settings
from braid.runtime.signals import stop_on_signals

WORDS = ("pause", "resume")


def ingest(
    names: SourceNames = None,
    once: Once = False,
    health: Health = False,
) -> None:
    """Append every record of the sources to their logs, exactly once, until Ctrl-C or SIGTERM.

    A record that cannot be counted goes into the log with its reason; a duplicate within the horizon is counted and
    dropped. It may be killed at any moment and started again. `braid ingest pause SOURCE` rests it in whatever process
    runs it, and `braid ingest resume SOURCE` lets it go on; that is kept over restarts.

    Example: `braid ingest requests --once`
    """
    definitions = load_definitions(current_settings().definitions)
    if was_paused_or_resumed("ingest", names, definitions.source):
        return
    from braid.runtime.spark import spark_session
    from speed_layer.ingest.run import ingest as run

    settings = current_settings()
    sources = sources_of(settings, names)
    with stop_on_signals() as stop, seen(settings, health):
        run(spark_session(settings, "braid ingest"), sources, settings, once=once, stop=stop)


def stream(
    names: ViewNames = None,
    once: Once = False,
    ingest: Annotated[
        bool,
        typer.Option("--ingest", help="Also run the ingest of their sources, in the same Spark application."),
    ] = False,
    health: Health = False,
) -> None:
    """Keep the views' tails up to date from the log, each event exactly once, until Ctrl-C or SIGTERM.

    Every deployed version of a view has a stream of its own; one that fails is retried and does not stop the others.
    It may be killed at any moment and started again. `braid stream pause VIEW` rests the streams of a view in whatever
    process runs them, and `braid stream resume VIEW` lets them go on; that is kept over restarts.

    Example: `braid stream page_traffic --once`
    """
    if was_paused_or_resumed("stream", names, load_definitions(current_settings().definitions).view):
        return
    from braid.runtime.spark import spark_session
    from speed_layer.jobs.engine import stream as run

    settings = current_settings()
    definitions = load_definitions(settings.definitions)
    views = [definitions.view(name) for name in names] if names else list(definitions.views.values())
    sources = with_inputs(view.source for view in views) if names else list(definitions.sources.values())
    with stop_on_signals() as stop, seen(settings, health):
        run(
            spark_session(settings, "braid stream"),
            views,
            settings,
            sources=sources if ingest else (),
            only=bool(names),
            once=once,
            stop=stop,
        )


def maintain(
    names: SourceNames = None,
    every: Annotated[
        str | None, typer.Option(help="Do nothing if it was done within this time, such as 12h.")
    ] = None,
    json: Json = False,
) -> None:
    """Compact the logs, and remove files of logs, tails and bases that nobody can need any more.

    Safe while streams run. Tails are compacted by their own streams. Of a table that is younger than its retention
    no file can be removed, and none is looked for.

    Example: `braid maintain --every 12h`
    """
    from braid.tables.maintenance import compact, done_within, is_young, remember, vacuum
    from braid.tables.maintenance import maintain as run

    settings = current_settings()
    sources = sources_of(settings, names)
    recent = None if every is None else done_within(settings, parse_duration(every), sources)
    if recent is not None:
        say = f"maintained at {recent:%Y-%m-%d %H:%M:%S} UTC, which is not {every} ago: nothing to do."
        print_json([]) if json else console.print(say, highlight=False)
        return
    from braid.deploy.store import deployments
    from braid.log.contents import exists
    from braid.log.table import Log
    from braid.runtime.spark import spark_session
    from braid.tables.commits import newest_commit, newest_tail_commit
    from braid.tables.view_tables import ViewTables
    from speed_layer.recovery import keep_word

    spark = spark_session(settings)
    logs = [Log(source, settings) for source in sources]
    tables = [log.table for log in logs if exists(spark, log)]
    for log in logs:
        keep_word(settings, f"ingest-{log.source.name}", log.table, newest_commit)
    done = [(compact if is_young(table) else run)(spark, table) for table in tables]
    wanted = {source.name for source in sources}
    for name, deployed in deployments(settings).items():
        for version in deployed.versions:
            if version.phase != "retired" and version.view.source.name in wanted:
                of_view = ViewTables.of(settings, version)
                job = f"stream-{name}-v{version.number}"
                keep_word(settings, job, of_view.tail, newest_tail_commit)
                old = [table for table in (of_view.tail, of_view.base) if not is_young(table)]
                done += filter(None, (vacuum(spark, table) for table in old))
    remember(settings, sources)
    if json:
        print_json([asdict(d) for d in done])
    else:
        print_values("maintained", done)


def was_paused_or_resumed(kind: Pausable, names: list[str] | None, require: Callable[[str], object]) -> bool:
    """Whether the first word was `pause` or `resume`, and names followed; then it is done."""
    if not names or names[0] not in WORDS:
        return False
    word, chosen = names[0], tuple(names[1:])
    if not chosen:
        what = "view" if kind == "stream" else "source"
        raise BraidError(f"`braid {kind} {word}` needs the name of a {what}: `braid {kind} {word} NAME`.")
    for name in chosen:
        require(name)
    said = set_pause(current_settings(), kind, chosen, is_paused=word == "pause")
    resting = ", ".join(said.of(kind)) or "nothing"
    said_so = f"paused: {resting}. What runs sees it within a second or two."
    console.print(said_so, highlight=False, markup=False, soft_wrap=True)
    return True


def run(once: Once = False, json: Json = False) -> None:
    """Bring everything up to date with one start of Spark: ingest what is there, stream it, compute the days due.

    The same as `braid ingest --once`, `braid stream --once` and `braid batch run`, one after the other, in the time of
    about one of them. What the streams of derived sources missed is added, and streamed too. A day that a gate holds is
    exit code 1. It may be killed at any moment and started again.

    Example: `braid run --once`
    """
    if not once:
        raise BraidError(
            "`braid run` ends when everything is up to date: write `braid run --once`. `braid up` runs for good."
        )
    from batch_layer.derived import correct
    from batch_layer.plan import lambda_views
    from batch_layer.run import run as compute
    from batch_layer.tasks import Asked
    from braid.runtime.spark import spark_session
    from speed_layer.jobs.engine import stream

    settings = current_settings()
    definitions = load_definitions(settings.definitions)
    views = list(definitions.views.values())
    spark = spark_session(settings, "braid run")
    sources = list(definitions.sources.values())
    with stop_on_signals() as stop:
        stream(spark, views, settings, sources=sources, once=True, stop=stop)
        # What is added to a source may be missing in one that is derived from it.
        while not stop.is_set() and correct(lambda: spark, settings, sources):
            stream(spark, views, settings, sources=sources, once=True, stop=stop)
        if stop.is_set():
            raise typer.Exit(130)
    with progress() as watch:
        results = compute(lambda: spark, settings, lambda_views(views), Asked(), watch=watch)
    show_results(results, json)
