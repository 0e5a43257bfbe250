"""`braid log`, `ledger` and `quarantine`: what a log holds, that nothing is lost, and what could not be counted."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from braid.cli.options import SourceName, sources_of
from braid.cli.output import Json, console, failed, print_json, print_table, print_values
from braid.runtime.settings import current_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from braid.log.table import Log


class ShowByDefault(TyperGroup):
    """`braid quarantine requests` means `braid quarantine show requests`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        words = args if args and args[0] in self.commands else ["show", *args]
        return super().resolve_command(ctx, words)


quarantine = typer.Typer(
    cls=ShowByDefault, no_args_is_help=True, help="Records that could not be counted, with their reasons."
)


def register(app: typer.Typer) -> None:
    app.command()(log)
    app.command()(ledger)
    app.add_typer(quarantine, name="quarantine")


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
        print_values("violations", books.violations[:20])
    if not books.balanced:
        raise failed(json, f"the ledger of {name} does not balance: see the ranges above.")
    if not json:
        console.print("[green]balanced[/]: nothing lost, nothing twice")


@quarantine.command()
def show(
    name: SourceName,
    json: Json = False,
    examples: Annotated[int, typer.Option(min=0, max=100, help="How many records of each reason.")] = 3,
) -> None:
    """Count the rejected records by reason, with examples."""
    from braid.log.rejected import describe

    reasons = describe(log_of(name), examples=examples)
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
