"""`braid batch …`: which days are to be computed, computing them, and the gates that may hold them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from braid.cli.batch import for_airflow
from braid.cli.batch.board import board_rows, day_as_dict, print_board, print_gates, show_results
from braid.cli.options import (
    Cut,
    Day,
    First,
    Last,
    SourceNames,
    Views,
    a_day,
    asked_days,
    lambda_views,
    moment,
    progress,
    short,
    sources_of,
)
from braid.cli.output import Json, console, failed, print_json, print_table
from braid.errors import CheckFailed
from braid.runtime.installation import require
from braid.runtime.settings import Settings, current_settings

if TYPE_CHECKING:
    from batch_layer.plan import Days, PlannedDay

batch = typer.Typer(
    no_args_is_help=True, help="Recompute days from the log, audit them, and publish them into the base."
)


@batch.command()
def plan(
    view: Views = None,
    day: Day = None,
    first: First = None,
    last: Last = None,
    cut: Cut = None,
    json: Json = False,
) -> None:
    """Show days with their state: never computed, stale, definition changed, tables lost, held, or up to date.

    Example: `braid batch plan --from 2026-03-01 --to 2026-03-07`
    """
    settings = current_settings()
    planned = _planned(settings, view, asked_days(day, first, last), cut)
    if json:
        print_json([day_as_dict(one) for one in planned])
        return
    columns = ("view", "day", "state", "why", "events", "through")
    rows = ((d.view, d.day, d.state, escape(d.reason), f"{d.events:,}", short(d.through)) for d in planned)
    print_table("batch plan", columns, rows)
    due = sum(one.is_due for one in planned)
    idle = (
        "Everything is up to date."
        if all(d.state == "up to date" for d in planned)
        else "Nothing to compute."
    )
    console.print(f"{due} to compute: `braid batch run` does it." if due else idle)


@batch.command()
def run(
    view: Views = None,
    day: Day = None,
    first: First = None,
    last: Last = None,
    cut: Cut = None,
    stale: Annotated[
        bool, typer.Option("--stale", help="Only days that were computed and have newer events.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Also days that are up to date.")] = False,
    json: Json = False,
) -> None:
    """Recompute days from the log up to the cut, audit them, and publish each in one commit.

    Without days: whatever is not up to date. A day that a gate holds is not published (exit code 1): the last good
    version stays in service. Safe while streams run, may be killed and run again; the same cut gives the same table.

    Example: `braid batch run --from 2026-03-01 --to 2026-03-07`
    """
    require("pyspark", "great_expectations")
    from batch_layer.run import run as compute
    from batch_layer.tasks import Asked

    settings = current_settings()
    views = lambda_views(settings, view)
    asked = Asked(asked_days(day, first, last), moment(cut), stale, force)
    with progress() as watch:
        results = compute(lambda: _spark(settings), settings, views, asked, watch=watch)
    show_results(results, json)


@batch.command()
def correct(names: SourceNames = None, json: Json = False) -> None:
    """Hand to ingest what the streams of derived sources missed, computed from the logs of their inputs, whole.

    `braid batch run` does the same for the sources of its views before it computes their days.

    Example: `braid batch correct clicked`
    """
    from batch_layer.derived import correct as hand_in

    settings = current_settings()
    added = hand_in(lambda: _spark(settings), settings, sources_of(settings, names))
    if json:
        print_json({"added": added})
    else:
        console.print(f"events that streams had missed: {added}; `braid ingest` takes them from the inbox.")


@batch.command()
def release(
    day: Annotated[str, typer.Argument(help="The day, as in 2026-03-01.", metavar="DAY")],
    because: Annotated[str, typer.Option("--because", help="Why the day is right as it is; it is recorded.")],
    view: Views = None,
    json: Json = False,
) -> None:
    """Publish a day that a gate holds, as it was when it was held.

    Example: `braid batch release 2026-03-01 --because "the source was down, as announced"`
    """
    from batch_layer.release import release as publish

    settings = current_settings()
    views = lambda_views(settings, view)
    show_results(publish(lambda: _spark(settings), settings, views, a_day(day), because), json)


@batch.command()
def gate(
    day: Annotated[str, typer.Option("--day", help="The day, as in 2026-03-01.")],
    cut: Cut = None,
    json: Json = False,
) -> None:
    """Ask the input gates of every source about a day, and record what they say. Exit code 1 when one holds it.

    Example: `braid batch gate --day 2026-03-01`
    """
    from batch_layer.gates.inputs import gate as ask

    settings = current_settings()
    gates = ask(_spark(settings), settings, lambda_views(settings, None), a_day(day), moment(cut))
    if json:
        print_json({name: asdict(found) | {"holds": found.holds} for name, found in gates.items()})
    else:
        print_gates(day, gates)
    held = {name: found for name, found in gates.items() if found.holds}
    if held:
        said = "; ".join(f"{name}: {found.verdict.says().rstrip('.')}" for name, found in held.items())
        raise failed(json, f"{day} is held. {said}.")


@batch.command()
def compare(
    view: Views = None,
    day: Day = None,
    first: First = None,
    last: Last = None,
    cut: Cut = None,
    json: Json = False,
) -> None:
    """Compare what is served of published days with an independent recompute of the log at the same cut.

    Exit code 1, with examples, when they differ.
    """
    from batch_layer.accuracy import compare as judge

    settings = current_settings()
    found = judge(
        _spark(settings), settings, lambda_views(settings, view), asked_days(day, first, last), moment(cut)
    )
    if json:
        print_json([asdict(one) | {"holds": one.holds} for one in found])
    else:
        rows = (
            (p.view, short(p.cut), f"{p.groups:,}", f"{p.equal:,}", p.different, p.missing, p.extra)
            for p in found
        )
        print_table(
            "served against recomputed",
            ("view", "cut", "groups", "equal", "different", "missing", "extra"),
            rows,
        )
    wrong = [one for one in found if not one.holds]
    if wrong:
        raise typer.Exit(1) if json else CheckFailed(
            "; ".join(one.says() for one in wrong) + f". The first example: {dict(wrong[0].examples[0])}"
        )  # fmt: skip


@batch.command()
def board(view: Views = None, first: First = None, last: Last = None, json: Json = False) -> None:
    """Show day by day: events, rows, cut, staleness, gate, and how right the served number was before the publish."""
    settings = current_settings()
    planned = _planned(settings, view, asked_days(None, first, last), None)
    if json:
        print_json(board_rows(planned))
    else:
        print_board(planned)


@batch.command()
def docs() -> None:
    """Build the gates' Data Docs, a static site, and print where it is."""
    from batch_layer.gates.data_docs import build

    print(build(current_settings()))


def _planned(
    settings: Settings, wanted: Sequence[str] | None, days: "Days", cut: str | None
) -> "list[PlannedDay]":
    from batch_layer import plan as planning

    sources = planning.plan(settings, lambda_views(settings, wanted), days, moment(cut))
    return [day for source in sources for day in source.days]


def _spark(settings: Settings) -> Any:
    from braid.runtime.spark import spark_session

    return spark_session(settings, "braid batch")


# Behind the others in the help: people hardly need them.
for_airflow.add_to(batch)
