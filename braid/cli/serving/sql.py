"""`braid sql`: analysts' questions, over the views as they are served."""

from typing import Annotated

import typer

from braid.cli.output import Json, console, print_json, print_table
from braid.runtime.settings import current_settings

ROWS_FOR_PEOPLE = 100


def sql(
    text: Annotated[str, typer.Argument(help="One SELECT.", metavar="SELECT")],
    start: Annotated[
        str | None, typer.Option(help="Only windows that begin at this time or later are in the tables.")
    ] = None,
    end: Annotated[
        str | None, typer.Option(help="Only windows that begin before this time are in the tables.")
    ] = None,
    json: Json = False,
) -> None:
    """Ask in SQL: every view is a table of its numbers, with joins, window functions and all else that DuckDB has.

    A view's table has its keys, window_start and window_end (UTC), its measures, `_status` (final, provisional or
    revised), `_events` and, of these, `_in_tail`. Nothing else can be read, and nothing can be changed. Times without
    an offset are UTC.

    Example: `braid sql "select url, sum(hits) from page_traffic group by url order by 2 desc limit 5"`
    """
    from zoneinfo import ZoneInfo

    from braid.deploy.store import deployments
    from serving_layer.answer.json_values import plain_rows
    from serving_layer.answer.scope import parse_moment
    from serving_layer.answer.sql import run

    settings, utc = current_settings(), ZoneInfo("UTC")
    since, until = (
        None if moment is None else parse_moment(moment, utc, name)
        for name, moment in (("start", start), ("end", end))
    )
    rows = plain_rows(run(settings, deployments(settings), text, since, until), utc)
    if json:
        print_json(rows)
        return
    columns = list(rows[0]) if rows else []
    print_table("", columns, ([row[name] for name in columns] for row in rows[:ROWS_FOR_PEOPLE]))
    if len(rows) > ROWS_FOR_PEOPLE:
        console.print(f"{len(rows) - ROWS_FOR_PEOPLE:,} more rows: see them with --json.", highlight=False)
