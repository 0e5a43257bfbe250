"""The parts that the page is put together from: sections and tables, with everything escaped that is not ours."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from serving_layer.accuracy.report.words import percent

# Columns of prose, which may take several lines.
WORDS = ("meaning", "which is", "promised", "more than allowed")


def section(title: str, said: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{said}</p>{body}</section>"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    def cell(tag: str, name: str, value: Any) -> str:
        kind = ' class="words"' if name in WORDS else ""
        return f"<{tag}{kind}>{escape(str(value))}</{tag}>"

    top = "".join(cell("th", name, name) for name in head)
    body = "".join(
        f"<tr>{''.join(cell('td', name, value) for name, value in zip(head, row, strict=True))}</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def share(value: float | None) -> str:
    return "" if value is None else percent(value)
