"""What a play leaves behind: tables that a person enjoys, and checks against the truth; as text and as plain data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from rich.markup import escape
from rich.table import Table

from braid.cli.checks import Check, text

WIDTH = 28
COLOURS = ("blue", "yellow")


@dataclass(frozen=True)
class Shown:
    """A table of results; the columns that are `drawn` are also bars, stacked or side by side, or lines.

    A picture marks the rows of which the column `marked` is not nought.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    drawn: tuple[str, ...] = ()
    stacked: bool = True
    lines: bool = False
    marked: str | None = None


@dataclass(frozen=True)
class Played:
    """The results and the checks of one play."""

    results: tuple[Shown, ...]
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        results = [
            asdict(one) | {"rows": [list(map(_plain, row)) for row in one.rows]} for one in self.results
        ]
        return {"ok": self.ok, "results": results, "checks": [asdict(check) for check in self.checks]}


def result_table(shown: Shown) -> Table:
    """For a terminal: numbers to the right, and bars beside them."""
    table = Table(title=shown.title, title_justify="left", header_style="bold")
    for at, name in enumerate(shown.columns):
        is_number = all(isinstance(row[at], int | float | Decimal) for row in shown.rows)
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    if shown.drawn and not shown.lines:
        table.add_column("")
    largest = max(map(sum if shown.stacked else max, _drawn(shown)), default=0.0) if shown.drawn else 0.0
    for row, values in zip(shown.rows, _drawn(shown), strict=True):
        table.add_row(*(escape(text(cell)) for cell in row), *_bar(shown, values, WIDTH / (largest or 1.0)))
    return table


def _plain(value: object) -> object:
    """Numbers stay numbers; money and times are text."""
    if isinstance(value, Decimal):
        return str(value)
    return text(value) if isinstance(value, datetime) else value


def _drawn(shown: Shown) -> list[list[float]]:
    return [[float(row[shown.columns.index(name)]) for name in shown.drawn] for row in shown.rows]


def _bar(shown: Shown, values: Sequence[float], scale: float) -> tuple[str, ...]:
    if not values or shown.lines:
        return ()
    blocks = ("█" * (round(value * scale) or (value > 0)) for value in values)
    coloured = (f"[{colour}]{block}[/]" for colour, block in zip(COLOURS, blocks, strict=False))
    return (("" if shown.stacked else "\n").join(coloured),)
