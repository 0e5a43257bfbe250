"""What commands share: arguments and options, how days and cuts are written, and the bar over days."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from braid.cli.output import errors
from braid.define.loading import load_definitions
from braid.define.source import Source
from braid.define.view import View
from braid.errors import BraidError
from braid.runtime.settings import Settings

if TYPE_CHECKING:
    from batch_layer.plan import Days
    from batch_layer.run import Watch

SourceName = Annotated[str, typer.Argument(help="The source's name.", metavar="SOURCE")]
SourceNames = Annotated[
    list[str] | None, typer.Argument(help="Sources by name; all when none is given.", metavar="[SOURCE]...")
]
ViewName = Annotated[str, typer.Argument(help="The view's name.", metavar="VIEW")]
ViewNames = Annotated[
    list[str] | None, typer.Argument(help="Views by name; all when none is given.", metavar="[VIEW]...")
]
Once = Annotated[bool, typer.Option("--once", help="Read what is there now, then stop.")]
Views = Annotated[
    list[str] | None, typer.Option("--view", help="A view by its name; all lambda views when none is given.")
]
Day = Annotated[str | None, typer.Option("--day", help="One day, as in 2026-03-01.")]
First = Annotated[str | None, typer.Option("--from", help="The first day of a range.")]
Last = Annotated[str | None, typer.Option("--to", help="The last day of a range, which is in it.")]
Cut = Annotated[
    str | None,
    typer.Option("--cut", help="The last epoch that counts, as in 2026-03-02T00:00Z; the last closed one."),
]


def sources_of(settings: Settings, names: list[str] | None) -> list[Source]:
    definitions = load_definitions(settings.definitions)
    return [definitions.source(name) for name in names] if names else list(definitions.sources.values())


def lambda_views(settings: Settings, wanted: Sequence[str] | None) -> list[View]:
    from batch_layer import plan as planning

    definitions = load_definitions(settings.definitions)
    for name in wanted or ():
        definitions.view(name)
    return planning.lambda_views(definitions.views.values(), tuple(wanted or ()))


def asked_days(day: str | None, first: str | None, last: str | None) -> "Days":
    from batch_layer.plan import Days

    if day is not None and (first or last):
        raise BraidError("give either --day or a range with --from and --to, not both.")
    if day is not None:
        return Days(a_day(day), a_day(day))
    return Days(a_day(first) if first else None, a_day(last) if last else None)


def a_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BraidError(f"{text!r} is not a day: write it as 2026-03-01.") from None


def moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BraidError(f"the cut {text!r} is not a time: write it as 2026-03-02T00:00Z.") from None
    if found.tzinfo is None:
        raise BraidError(f"the cut {text!r} has no zone: write it as {text}Z if it is in UTC.")
    return found


def require_writable(file: Path | None) -> None:
    """Before anything is computed or sent: afterwards it would be too late to say so."""
    if file is not None and (file.is_dir() or not file.resolve().parent.is_dir()):
        raise BraidError(f"{file} cannot be written: name a file in a folder that exists.")


def short(value: datetime | None) -> str:
    return "" if value is None else f"{value:%Y-%m-%d %H:%M}"


@contextmanager
def progress() -> "Iterator[Watch]":
    """A bar over days on a terminal, and silence elsewhere: a run logs each day that it publishes."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task("computing days", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)


def number(observed: float | str | None) -> str:
    return f"{observed:.6g}" if isinstance(observed, float) else str(observed)
