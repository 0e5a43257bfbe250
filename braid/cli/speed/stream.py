"""`braid ingest`, `stream`, `maintain` and `recover`: what keeps logs and tails up to date, small and whole."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from braid.cli.health import Health, seen
from braid.cli.options import Once, SourceNames, ViewNames, sources_of
from braid.cli.output import Json, console, print_json, print_values
from braid.cli.speed.log import opened
from braid.cli.speed.pause import was_paused_or_resumed
from braid.define.durations import parse_duration
from braid.define.loading import load_definitions
from braid.errors import BraidError
from braid.runtime.settings import current_settings
from braid.runtime.signals import stop_on_signals

if TYPE_CHECKING:
    from speed_layer.recovery import Recovery


def register(app: typer.Typer) -> None:
    app.command()(ingest)
    app.command()(stream)
    app.command()(recover)
    app.command()(maintain)


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
    from speed_layer.ingest.job import ingest as run

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
    sources = (
        list({view.source.name: view.source for view in views}.values())
        if names
        else list(definitions.sources.values())
    )
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


def recover(
    name: Annotated[str, typer.Argument(help="A source or a view by name.", metavar="SOURCE|VIEW")],
    number: Annotated[
        int | None,
        typer.Option("--version", help="Of a view: the version; the active one when none is given."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it.")] = False,
    json: Json = False,
) -> None:
    """Begin a new checkpoint where the log or a view's tail ends, after one was lost or damaged.

    Says what it will do; `--yes` does it.
    """
    definitions = load_definitions(current_settings().definitions)
    is_source = name in definitions.sources
    planned = (
        _recover_source(name, yes) if is_source else _recover_view(definitions.view(name).name, number, yes)
    )
    if json:
        where = {"replaces": None} if planned.takeover is None else asdict(planned.takeover)
        kind = "source" if is_source else "view"
        print_json(
            {kind: name, "moves": planned.moves, "to": planned.to, **where, "says": planned.says, "done": yes}
        )
    else:
        console.print(planned.says)
        console.print("done" if yes else f"`braid recover {name} --yes` does it.")


def _recover_source(name: str, yes: bool) -> "Recovery":
    from speed_layer import recovery

    spark, place = opened(name)
    planned = recovery.plan_source(spark, place)
    if yes:
        recovery.recover(spark, place.settings, f"ingest-{name}", planned)
    return planned


def _recover_view(name: str, number: int | None, yes: bool) -> "Recovery":
    from braid.deploy.store import load
    from braid.runtime.spark import spark_session
    from braid.tables.view_tables import ViewTables
    from speed_layer import recovery

    settings = current_settings()
    deployed = load(settings, name)
    version = deployed.version(number) if number is not None else deployed.active
    if version is None:
        raise BraidError(f"view {name!r} is not deployed, so there is nothing to recover: see `braid plan`.")
    spark = spark_session(settings)
    planned = recovery.plan_view(spark, version.view, ViewTables(settings, name, version.number))
    if yes:
        recovery.recover(spark, settings, f"stream-{name}-v{version.number}", planned)
    return planned


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
    done = [(compact if is_young(spark, table) else run)(spark, table) for table in tables]
    wanted = {source.name for source in sources}
    for name, deployed in deployments(settings).items():
        for version in deployed.versions:
            if version.phase != "retired" and version.view.source.name in wanted:
                of_view = ViewTables(settings, name, version.number)
                job = f"stream-{name}-v{version.number}"
                keep_word(settings, job, of_view.tail, newest_tail_commit)
                old = [table for table in (of_view.tail, of_view.base) if not is_young(spark, table)]
                done += filter(None, (vacuum(spark, table) for table in old))
    remember(settings, sources)
    if json:
        print_json([asdict(d) for d in done])
    else:
        print_values("maintained", done)
