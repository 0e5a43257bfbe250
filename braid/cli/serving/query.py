"""`braid query` and `braid tail`: a view's numbers now, and as they change."""

import json as json_format
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from braid.cli.output import Json, print_json
from braid.runtime.settings import current_settings
from braid.runtime.signals import stop_on_signals

if TYPE_CHECKING:
    from serving_layer.memory.changes import Move, Row
    from serving_layer.memory.follower import Follower

Name = Annotated[str, typer.Argument(help="The view's name.", metavar="VIEW")]
Limit = Annotated[
    int | None, typer.Option(min=0, help="At most so many rows; people get 40 unless they say so.")
]
ROWS_FOR_PEOPLE = 40
# Shorter than people notice, and a look that finds nothing takes a millisecond.
PAUSE = 0.2


class Output(Console):
    """Leaves a closed pipe to `a_closed_pipe_is_the_end`; Rich would end the process with code 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def query(
    name: Name,
    start: Annotated[str | None, typer.Option(help="Windows that begin at this time or later.")] = None,
    end: Annotated[str | None, typer.Option(help="Windows that begin before this time.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE, or 'KEY is null'; several values of one key are alternatives."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Keys to tell rows apart by, such as url,status; '' for none: the others are merged."
        ),
    ] = None,
    grain: Annotated[str | None, typer.Option(help="Windows of this length instead, such as 1h.")] = None,
    top: Annotated[
        str | None, typer.Option(metavar="MEASURE", help="The rows with the largest numbers of this measure.")
    ] = None,
    per: Annotated[
        Literal["window", "range"],
        typer.Option(help="With --top: of each window, or of the range as a whole."),
    ] = "range",
    n: Annotated[int, typer.Option(min=1, help="With --top: so many rows.")] = 10,
    order: Annotated[
        str | None, typer.Option(help="Columns to order by, such as -hits,url: '-' is largest first.")
    ] = None,
    limit: Limit = None,
    offset: Annotated[int, typer.Option(min=0, help="Leave out so many rows first.")] = 0,
    status: Annotated[
        bool, typer.Option("--status", help="Show which numbers are final, and where they come from.")
    ] = False,
    json: Json = False,
) -> None:
    """Show a view's numbers: base and tail merged, exact up to what the stream has read.

    Times are ISO 8601; without an offset they are in the source's time zone.

    Example: `braid query page_traffic --where url=/ --grain 1h --order -hits --limit 10`
    """
    from serving_layer.answer.answers import ask, ask_top, document
    from serving_layer.answer.reader import FromTables, active_version
    from serving_layer.answer.request import parse_ranking, parse_request

    settings = current_settings()
    version = active_version(settings, name)
    shown = ROWS_FOR_PEOPLE if limit is None and not json else limit
    request = parse_request(
        version.view, start=start, end=end, where=where or (), group=group, grain=grain, order=order,
        limit=shown, offset=offset,
    )  # fmt: skip
    reading = FromTables(settings, version)
    found = (
        ask_top(reading, request, parse_ranking(version.view, top, n, per)) if top else ask(reading, request)
    )
    answer = document(found)
    with a_closed_pipe_is_the_end():
        if json:
            print_json(answer)
            return
        output = Output()
        output.print(_table(f"{name}, version {answer['version']}", answer["rows"], with_status=status))
        left = answer["total"] - offset - len(answer["rows"])
        if left > 0:
            output.print(f"{left} more rows: see them with --limit and --offset, or --json.", highlight=False)
        if status:
            _print_provenance(output, answer["provenance"])


def tail(
    name: Name,
    mode: Annotated[
        Literal["updates", "final", "complete"],
        typer.Option(help="What changes, what becomes final (and is revised), or the whole table each time."),
    ] = "updates",
    limit: Limit = None,
    once: Annotated[bool, typer.Option("--once", help="Print what there is now, then stop.")] = False,
    json: Json = False,
) -> None:
    """Print a view's numbers as they change, beginning with what there is now, until Ctrl-C or SIGTERM.

    With `--json` every row is one line (of `--mode complete`: every table), printed at once. A row that is
    "withdrawn" is no more: its session has become part of another one, or is not final any more.

    Example: `braid tail page_traffic --mode final --json`
    """
    from serving_layer.memory.changes import WholeTable, final, updates
    from serving_layer.memory.follower import Follower

    chosen = {"updates": updates, "final": final, "complete": WholeTable().take}[mode]
    follower = Follower(current_settings(), name)
    until_told = nullcontext(threading.Event()) if once else stop_on_signals()
    with until_told as stop, a_closed_pipe_is_the_end(), _screen(mode, json) as screen:
        for move in moves(follower, stop, once):
            rows = chosen(move)
            if rows is not None and (rows or once or mode == "complete"):
                _print_move(screen, move, rows, mode, limit, json)


def moves(follower: "Follower", stop: threading.Event, once: bool) -> "Iterator[Move]":
    """The present state, and then every change until it is time to stop."""
    yield follower.start()
    while not once and not stop.wait(PAUSE):
        if (move := follower.step()) is not None:
            yield move


@contextmanager
def a_closed_pipe_is_the_end() -> Iterator[None]:
    """Whoever read this (`| head`) has enough: that is no error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more when it exits, and must find something to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None


@contextmanager
def _screen(mode: str, json: bool) -> Iterator[Output | Live]:
    """On a terminal, the whole table is renewed in its place."""
    output = Output()
    if mode == "complete" and output.is_terminal and not json:
        with Live(console=output, auto_refresh=False) as live:
            yield live
    else:
        yield output


def _print_move(
    screen: Output | Live, move: "Move", rows: "list[Row]", mode: str, limit: int | None, json: bool
) -> None:
    version, mark = move.now.version.number, move.now.mark
    epoch = None if mark is None or mark.epoch is None else mark.epoch.isoformat()
    most = ROWS_FOR_PEOPLE if limit is None and not json else limit
    # Rows are in the order of their windows, and the newest matter most.
    kept = rows if most is None else rows[max(0, len(rows) - most) :]
    if json and mode == "complete":
        _print_line({"view": move.now.view.name, "version": version, "epoch": epoch, "rows": kept})
    elif json:
        for row in kept:
            _print_line(row | {"_version": version, "_epoch": epoch})
    else:
        hidden = f", {len(rows) - len(kept)} older rows not shown" if len(kept) < len(rows) else ""
        table = _table(
            f"{move.now.view.name}, version {version}, epoch {epoch}{hidden}", kept, with_status=True
        )
        screen.update(table, refresh=True) if isinstance(screen, Live) else screen.print(table)


def _print_line(value: Any) -> None:
    print(json_format.dumps(value), flush=True)


def _table(title: str, rows: Sequence[dict[str, Any]], with_status: bool) -> Table:
    table = Table(title=escape(title), title_justify="left", header_style="bold")
    hidden = () if with_status else ("_status",)
    names = [name for name in (rows[0] if rows else ()) if name not in hidden]
    for name in names:
        # A value that is cut short is no value: what does not fit goes on in the next line.
        table.add_column(escape(name.removeprefix("_")), overflow="fold")
    for row in rows:
        table.add_row(*(escape(_cell(name, row[name])) for name in names))
    return table


def _cell(name: str, value: Any) -> str:
    """Most windows begin and end with a minute: that is said once, by leaving the seconds out."""
    text = "" if value is None else str(value)
    return re.sub(r"(T\d\d:\d\d):00(?=[+-])", r"\1", text) if name.startswith("window_") else text


def _print_provenance(output: Output, provenance: dict[str, Any]) -> None:
    for part in provenance["base_through"]:
        output.print(
            f"base: days {part['first_day']} to {part['last_day']}, through {part['through']}",
            highlight=False,
        )
    output.print(
        f"events: {provenance['base_events']} in the base, {provenance['tail_events']} in the tail, "
        f"which is at epoch {provenance['tail_epoch']} and complete through {provenance['complete']}",
        highlight=False,
    )
    if provenance["replaying"]:
        output.print("history is still being read: the numbers are incomplete.", highlight=False)
