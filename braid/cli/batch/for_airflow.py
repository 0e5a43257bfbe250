"""What Airflow's tasks ask before they compute: the cut of a run, the portions of a range, and the views by name."""

import json as jsons
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from braid.cli.options import Day, Views, a_day, asked_days, lambda_views
from braid.cli.output import print_error
from braid.define.view import View
from braid.errors import NotYet
from braid.runtime.settings import Settings, current_settings

# Airflow's sensors take this exit code for "not yet, ask again".
ASK_AGAIN = 99


def add_to(batch: typer.Typer) -> None:
    for command in (cut, chunks, views):
        batch.command()(command)


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


def views() -> None:
    """Print the names of the views that the batch layer computes, as JSON on one line."""
    print(jsons.dumps([view.name for view in lambda_views(current_settings(), None)]))


def _common_cut(
    settings: Settings, views: Sequence[View], run: str | None, day: str | None = None
) -> datetime:
    """The cut that a run was given first, or the last one that is closed in all logs of the views."""
    from batch_layer.arrivals import closed_in_all, cut_after, pinned

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
