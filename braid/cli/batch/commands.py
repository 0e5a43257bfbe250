"""`braid batch …`: which days are to be computed, computing them, and the gates that may hold them."""

import json as jsons
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from braid.cli.batch.board import board_rows, day_as_dict, print_board, print_gates, show_results
from braid.cli.options import (
    Cut,
    Day,
    First,
    Last,
    Views,
    a_day,
    asked_days,
    lambda_views,
    moment,
    progress,
    short,
)
from braid.cli.output import Json, console, failed, print_error, print_json, print_table
from braid.define.view import View
from braid.errors import CheckFailed, NotYet
from braid.runtime.settings import Settings, current_settings

if TYPE_CHECKING:
    from batch_layer.plan import Days, PlannedDay

# Airflow's sensors take this exit code for "not yet, ask again".
ASK_AGAIN = 99

batch = typer.Typer(
    no_args_is_help=True, help="Recompute days from the log, audit them, and publish them into the base."
)


def register(app: typer.Typer) -> None:
    app.add_typer(batch, name="batch")


@batch.command()
def plan(
    view: Views = None,
    day: Day = None,
    first: First = None,
    last: Last = None,
    cut: Cut = None,
    json: Json = False,
) -> None:
    """Show days with their state: never computed, stale, definition changed, tail lost, held by a gate, or up to date.

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
    from batch_layer.run import run as compute
    from batch_layer.tasks import Asked

    settings = current_settings()
    views = lambda_views(settings, view)
    asked = Asked(asked_days(day, first, last), moment(cut), stale, force)
    with progress() as watch:
        results = compute(lambda: _spark(settings), settings, views, asked, watch=watch)
    show_results(results, json)


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
    from batch_layer.compare import compare as judge

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
def cut(
    day: Day = None,
    run: Annotated[
        str | None, typer.Option("--run", help="Pin it: the cut that is given first to this name is kept.")
    ] = None,
) -> None:
    """Print the last epoch that is closed in the logs of all lambda views, on one line.

    With --day, exit code 99 while the end of the day is not closed: a scheduler asks again. With --run, the first
    answer is recorded under that name and given ever after, to all tasks and retries of a run.

    Example: `braid batch cut --day 2026-03-01 --run daily`
    """
    print(_common_cut(current_settings(), lambda_views(current_settings(), None), run, day).isoformat())


@batch.command()
def chunks(
    first: Annotated[str, typer.Option("--from", help="The first day of the range.")],
    last: Annotated[str, typer.Option("--to", help="The last day, which is in it.")],
    view: Views = None,
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="At most so many days in a portion.")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", help="Pin the cut: the one that is given first to this name is kept."),
    ] = None,
) -> None:
    """Print the portions in which a range of days is best computed, as JSON on one line, each with the cut.

    A portion has as many days as have up to some million events; one run of `braid batch run` computes it.

    Example: `braid batch chunks --from 2024-01-01 --to 2026-03-01`
    """
    from batch_layer.tasks import ranges

    settings = current_settings()
    chosen = lambda_views(settings, view)
    cut = _common_cut(settings, chosen, run)
    found = ranges(settings, chosen, asked_days(None, first, last), cut, days)
    names = " ".join(view or ())
    print(
        jsons.dumps(
            [
                {"FROM": str(begin), "TO": str(end), "CUT": cut.isoformat(), "VIEWS": names}
                for begin, end in found
            ]
        )
    )


@batch.command()
def views() -> None:
    """Print the names of the views that the batch layer computes, as JSON on one line."""
    print(jsons.dumps([view.name for view in lambda_views(current_settings(), None)]))


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


def _common_cut(
    settings: Settings, views: Sequence[View], run: str | None, day: str | None = None
) -> datetime:
    """The cut that a run was given first, or the last one that is closed in all logs of the views."""
    from batch_layer.cuts import closed_in_all, cut_after, pinned

    sources = list({view.source.name: view.source for view in views}.values())
    known = pinned(settings, run, None) if run is not None else None
    if known is not None:
        return known
    try:
        found = cut_after(settings, sources, a_day(day)) if day else closed_in_all(settings, sources)
    except NotYet as wait:
        print_error(str(wait))
        raise typer.Exit(ASK_AGAIN) from None
    return found if run is None else pinned(settings, run, found) or found


def _spark(settings: Settings) -> Any:
    from braid.runtime.spark import spark_session

    return spark_session(settings, "braid batch")
