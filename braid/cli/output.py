"""How commands speak: tables for people, JSON for programs, errors on stderr."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from braid.errors import CheckFailed

console = Console()
errors = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def print_json(value: Any) -> None:
    """Plain, never coloured or wrapped: it is read by programs."""
    print(json.dumps(value, indent=2, default=str))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    console.print(table)


def print_values(title: str, values: Sequence[Any]) -> None:
    """A table of dataclasses, one a row; nothing for none."""
    if values:
        columns = [field.name for field in fields(values[0])]
        print_table(title, columns, ([getattr(value, column) for column in columns] for value in values))


def print_service(title: str, service: Any, json: bool, incomplete: str) -> None:
    """What is known of a service on this machine; it fails, and says so, where that is not all that should run."""
    known = asdict(service)
    if json:
        print_json(known)
    else:
        print_table(title, ("what", "value"), ((name, _listed(value)) for name, value in known.items()))
    if not service.healthy:
        raise failed(json, incomplete)


def _listed(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{part} {pid or 'not running'}" for part, pid in value.items())
    return escape("\n".join(value) if isinstance(value, tuple) else str(value))


def say(text: str) -> None:
    """A sentence as it is: not coloured, not broken where the terminal ends."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def failed(json: bool, message: str) -> Exception:
    """To be raised by a check that does not hold, for exit code 1; JSON has said already what is wrong."""
    return typer.Exit(1) if json else CheckFailed(message)


def print_error(message: str) -> None:
    errors.print(f"[bold red]error[/]: {escape(message)}", soft_wrap=True, highlight=False)


def mark(ok: bool) -> str:
    return "[green]ok[/]" if ok else "[bold red]no[/]"
