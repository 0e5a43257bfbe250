"""`braid ingest`, `log`, `ledger`, `quarantine`, `recover`, `maintain`: everything about the log."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from braid.cli.output import Json, console, failed, print_json, print_table
from braid.define.durations import parse_duration
from braid.define.loading import load_definitions
from braid.define.source import Source
from braid.errors import BraidError
from braid.runtime.settings import Settings, current_settings
from braid.runtime.signals import stop_on_signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from braid.log.table import Log
    from speed_layer.recovery import Recovery

Name = Annotated[str, typer.Argument(help="The source's name.", metavar="SOURCE")]
Names = Annotated[
    list[str] | None, typer.Argument(help="Sources by name; all when none is given.", metavar="[SOURCE]...")
]


class ShowByDefault(TyperGroup):
    """`braid quarantine requests` means `braid quarantine show requests`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        words = args if args and args[0] in self.commands else ["show", *args]
        return super().resolve_command(ctx, words)


quarantine = typer.Typer(
    cls=ShowByDefault, no_args_is_help=True, help="Records that could not be counted, with their reasons."
)


def register(app: typer.Typer) -> None:
    app.command()(ingest)
    app.command()(log)
    app.command()(ledger)
    app.add_typer(quarantine, name="quarantine")
    app.command()(recover)
    app.command()(maintain)


def sources_of(settings: Settings, names: list[str] | None) -> list[Source]:
    definitions = load_definitions(settings.definitions)
    return [definitions.source(name) for name in names] if names else list(definitions.sources.values())


def opened(name: str) -> "tuple[SparkSession, Log]":
    """The log of a source, with the session to read it."""
    from braid.log.table import Log
    from braid.runtime.spark import spark_session

    settings = current_settings()
    (source,) = sources_of(settings, [name])
    return spark_session(settings), Log(source, settings)


def ingest(
    names: Names = None,
    once: Annotated[bool, typer.Option("--once", help="Read what is there now, then stop.")] = False,
) -> None:
    """Append every record of the sources to their logs, exactly once, until Ctrl-C or SIGTERM.

    A record that cannot be counted goes into the log with its reason; a duplicate within the horizon is counted and
    dropped. It may be killed at any moment and started again.

    Example: `braid ingest requests --once`
    """
    from braid.runtime.spark import spark_session
    from speed_layer.ingest.job import ingest as run

    settings = current_settings()
    sources = sources_of(settings, names)
    with stop_on_signals() as stop:
        run(spark_session(settings, "braid ingest"), sources, settings, once=once, stop=stop)


def log(name: Name, json: Json = False) -> None:
    """Show what the log holds: days, rows, epochs, the last closed one, and the lag behind the broker."""
    from braid.log.table import describe
    from braid.tables.commits import newest_commit
    from speed_layer.ledger.balance import lag

    spark, place = opened(name)
    report = describe(spark, place)
    if place.source.kafka_topic:
        report["lag"] = lag(place, newest_commit(place.table))
    if json:
        print_json(report)
        return
    columns = ("day", "accepted", "rejected", "epochs", "first_epoch", "last_epoch")
    print_table(f"log of {name}", columns, ([day[c] for c in columns] for day in report["days"]))
    console.print(f"newest epoch {report['newest_epoch']}, last closed epoch {report['last_closed_epoch']}")
    if "lag" in report:
        console.print(f"behind the broker by {sum(report['lag'].values())} records {report['lag']}")
    if report["unknown_fields"]:
        console.print(f"fields that the schema does not name: {', '.join(report['unknown_fields'])}")


def ledger(name: Name, json: Json = False) -> None:
    """Prove conservation: consumed = accepted + rejected + duplicates, per partition, from the log and the broker.

    Exit code 1, with the ranges, when it does not hold.
    """
    from speed_layer.ledger.balance import take_stock

    books = take_stock(*opened(name))
    if json:
        print_json(books.as_dict())
    else:
        _print_all(f"ledger of {name}", books.accounts)
        requeued = ", ".join(f"{count} {what}" for what, count in books.requeued.items())
        console.print(f"waiting to be read: {books.waiting}; requeued: {requeued}", highlight=False)
        _print_all("violations", books.violations[:20])
    if not books.balanced:
        raise failed(json, f"the ledger of {name} does not balance: see the ranges above.")
    if not json:
        console.print("[green]balanced[/]: nothing lost, nothing twice")


def _print_all(title: str, values: Sequence[Any]) -> None:
    """A table of dataclasses, one a row; nothing for none."""
    if values:
        columns = [field.name for field in fields(values[0])]
        print_table(title, columns, ([getattr(value, column) for column in columns] for value in values))


@quarantine.command()
def show(
    name: Name,
    json: Json = False,
    examples: Annotated[int, typer.Option(min=0, max=100, help="How many records of each reason.")] = 3,
) -> None:
    """Count the rejected records by reason, with examples."""
    from speed_layer.ingest.quarantine import describe

    reasons = describe(*opened(name), examples=examples)
    if json:
        print_json(reasons)
        return
    rows = ((r["reason"], r["records"], "\n".join(map(_example, r["examples"]))) for r in reasons)
    print_table(f"quarantine of {name}", ("reason", "records", "examples"), rows)


def _example(record: dict[str, Any]) -> str:
    return f"{record['partition']}:{record['offset']} {record['raw'][:100]}"


@quarantine.command("requeue")
def requeue_(
    name: Name,
    reason: Annotated[str | None, typer.Option(help="Only records whose reason begins like this.")] = None,
    json: Json = False,
) -> None:
    """Send rejected records through ingest again, after the definition was mended. Each is sent once.

    Example: `braid quarantine requeue requests --reason "broken rule"`
    """
    from speed_layer.ingest.quarantine import requeue

    count = requeue(*opened(name), reason=reason)
    if json:
        print_json({"source": name, "requeued": count})
    else:
        console.print(f"records sent to the inbox of {name}: {count}; `braid ingest` takes them from there.")


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
    names: Names = None,
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
    from braid.deploy.store import deployments
    from braid.log.table import Log, exists
    from braid.runtime.spark import spark_session
    from braid.tables.commits import newest_commit, newest_tail_commit
    from braid.tables.maintenance import (
        compact,
        done_within,
        is_young,
        remember,
        vacuum,
    )
    from braid.tables.maintenance import maintain as run
    from braid.tables.view_tables import ViewTables
    from speed_layer.recovery import keep_word

    settings = current_settings()
    sources = sources_of(settings, names)
    recent = None if every is None else done_within(settings, parse_duration(every), sources)
    if recent is not None:
        say = f"maintained at {recent:%Y-%m-%d %H:%M:%S} UTC, which is not {every} ago: nothing to do."
        print_json([]) if json else console.print(say, highlight=False)
        return
    spark = spark_session(settings)
    logs = [Log(source, settings) for source in sources]
    tables = [log.table for log in logs if exists(spark, log)]
    for log in logs:
        keep_word(settings, f"ingest-{log.source.name}", log.table, newest_commit(log.table))
    done = [(compact if is_young(spark, table) else run)(spark, table) for table in tables]
    wanted = {source.name for source in sources}
    for name, deployed in deployments(settings).items():
        for version in deployed.versions:
            if version.phase != "retired" and version.view.source.name in wanted:
                of_view = ViewTables(settings, name, version.number)
                job = f"stream-{name}-v{version.number}"
                keep_word(settings, job, of_view.tail, newest_tail_commit(of_view.tail))
                old = [table for table in (of_view.tail, of_view.base) if not is_young(spark, table)]
                done += filter(None, (vacuum(spark, table) for table in old))
    remember(settings, sources)
    if json:
        print_json([asdict(d) for d in done])
    else:
        _print_all("maintained", done)
