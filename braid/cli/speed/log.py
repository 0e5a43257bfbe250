"""`braid log`, `ledger`, `quarantine` and `recover`: what a log holds, that nothing is lost, and how it goes on."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from braid.cli.options import SourceName, sources_of
from braid.cli.output import Json, console, failed, print_json, print_table, print_values
from braid.define.loading import load_definitions
from braid.errors import BraidError
from braid.runtime.settings import current_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from braid.log.table import Log
    from speed_layer.recovery import Recovery


class ShowByDefault(TyperGroup):
    """`braid quarantine requests` means `braid quarantine show requests`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        words = args if args and args[0] in self.commands else ["show", *args]
        return super().resolve_command(ctx, words)


quarantine = typer.Typer(
    cls=ShowByDefault, no_args_is_help=True, help="Records that could not be counted, with their reasons."
)


def log_of(name: str) -> "Log":
    """The log of a source."""
    from braid.log.table import Log

    settings = current_settings()
    (source,) = sources_of(settings, [name])
    return Log(source, settings)


def opened(name: str) -> "tuple[SparkSession, Log]":
    """The log of a source, with the session to read it."""
    from braid.runtime.spark import spark_session

    log = log_of(name)
    return spark_session(log.settings, briefly=True), log


def log(name: SourceName, json: Json = False) -> None:
    """Show what the log holds: days, rows, epochs, the last closed one, and the lag behind the broker."""
    from braid.log.database import describe
    from braid.tables.commits import newest_commit
    from speed_layer.ledger.balance import lag

    place = log_of(name)
    report = describe(place)
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


def ledger(name: SourceName, json: Json = False) -> None:
    """Prove conservation: consumed = accepted + rejected + duplicates, per partition, from the log and the broker.

    Exit code 1, with the ranges, when it does not hold.
    """
    from speed_layer.ledger.balance import take_stock

    books = take_stock(log_of(name))
    if json:
        print_json(books.as_dict())
    else:
        print_values(f"ledger of {name}", books.accounts)
        requeued = ", ".join(f"{count} {what}" for what, count in books.requeued.items())
        console.print(f"waiting to be read: {books.waiting}; requeued: {requeued}", highlight=False)
        if books.derived is not None:
            print_table("drawn from its inputs", ("what", "value"), _drawn(books.derived))
        print_values("violations", books.violations[:20])
    if not books.balanced:
        raise failed(json, f"the ledger of {name} does not balance: see the ranges above.")
    if not json:
        console.print("[green]balanced[/]: nothing lost, nothing twice")


def _drawn(derived: dict[str, Any]) -> list[tuple[str, str]]:
    told = {
        "by the stream": derived["events"],
        "by batch, which the stream had missed": derived["added"],
        "inputs that came too late for the stream": derived["late"],
        "batches whose late inputs a crash left uncounted": derived["uncounted"],
        **{f"commit of {name} to be read next": at["version"] for name, at in derived["inputs"].items()},
    }
    return [(what, f"{value:,}") for what, value in told.items()]


@quarantine.command()
def show(
    name: SourceName,
    json: Json = False,
    examples: Annotated[int, typer.Option(min=0, max=100, help="How many records of each reason.")] = 3,
) -> None:
    """Count the rejected records by reason, with examples."""
    from braid.log.database import describe_rejected

    reasons = describe_rejected(log_of(name), examples=examples)
    if json:
        print_json(reasons)
        return
    rows = ((r["reason"], r["records"], "\n".join(map(_example, r["examples"]))) for r in reasons)
    print_table(f"quarantine of {name}", ("reason", "records", "examples"), rows)


def _example(record: dict[str, Any]) -> str:
    return f"{record['partition']}:{record['offset']} {record['raw'][:100]}"


@quarantine.command("requeue")
def requeue_(
    name: SourceName,
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
    planned = recovery.plan_view(version.view, ViewTables.of(settings, version))
    if yes:
        recovery.recover(spark, settings, f"stream-{name}-v{version.number}", planned)
    return planned
