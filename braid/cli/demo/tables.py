"""What a demo has proven, as tables for a terminal: checks beside the truth, and results with bars."""

from collections.abc import Iterable, Sequence
from decimal import Decimal

from rich.markup import escape
from rich.table import Table

from braid.cli.output import mark
from examples.stage.checks import Shown, TruthCheck, text

WIDTH = 28
COLOURS = ("blue", "yellow")


def check_table(checks: Iterable[TruthCheck]) -> Table:
    """Each check with what was found beside what is true."""
    table = Table("check", "", "found", "expected", title="Braid against the truth", title_justify="left")
    for check in checks:
        table.add_row(check.name, mark(check.ok), escape(check.found), escape(check.expected))
    return table


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


def _drawn(shown: Shown) -> list[list[float]]:
    return [[float(row[shown.columns.index(name)]) for name in shown.drawn] for row in shown.rows]


def _bar(shown: Shown, values: Sequence[float], scale: float) -> tuple[str, ...]:
    if not values or shown.lines:
        return ()
    blocks = ("█" * (round(value * scale) or (value > 0)) for value in values)
    coloured = (f"[{colour}]{block}[/]" for colour, block in zip(COLOURS, blocks, strict=False))
    return (("" if shown.stacked else "\n").join(coloured),)
