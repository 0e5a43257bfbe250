"""Draws the examples: `python docs/pictures.py [NAME...]` plays them, and renews their pictures in docs/examples.

What is drawn is what `braid demo NAME --json` says. The tests of the examples fail when a picture has grown old.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent / "examples"
WIDTH, LEFT, RIGHT, ROW, HEAD = 720, 190, 90, 22, 46
PLOT = 220
COLOURS = ("#2f5d8a", "#e0a030", "#7a9e5f")
INK, SOFT, PALE = "#222222", "#666666", "#f6dcd6"

Result = dict[str, Any]


def picture(played: dict[str, Any]) -> str:
    """Everything that is drawn of an example, one below the other."""
    parts, height = [], 0
    for result in (result for result in played["results"] if result["drawn"]):
        tall, body = _lines(result) if result["lines"] else _bars(result)
        parts.append(f'<g transform="translate(0 {height})">{body}</g>')
        height += tall
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13" fill="{INK}">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _bars(result: Result) -> tuple[int, str]:
    """A row of blocks for each row of the table, with its number behind it."""
    table = _values(result)
    stacked, sides = result["stacked"], 1 if result["stacked"] else len(result["drawn"])
    largest = max(sum(row) if stacked else max(row) for row in table) or 1.0
    scale, tall = (WIDTH - LEFT - RIGHT) / largest, ROW * sides + (0 if stacked else 6)
    body = list(_head(result))
    for n, (row, values) in enumerate(zip(result["rows"], table, strict=True)):
        top = HEAD + n * tall
        body.append(_text(LEFT - 8, top + tall / 2, str(row[0]), "end"))
        body += _stack(values, top, scale) if stacked else _beside(values, top, scale)
    return HEAD + len(table) * tall + 14, "".join(body)


def _stack(values: Sequence[float], top: float, scale: float) -> Iterator[str]:
    x = float(LEFT)
    for colour, value in zip(COLOURS, values, strict=False):
        yield _rect(x, top + 3, value * scale, ROW - 6, colour)
        x += value * scale
    yield _text(x + 6, top + ROW / 2, _number(sum(values)))


def _beside(values: Sequence[float], top: float, scale: float) -> Iterator[str]:
    for n, (colour, value) in enumerate(zip(COLOURS, values, strict=False)):
        yield _rect(LEFT, top + n * ROW + 3, value * scale, ROW - 6, colour)
        yield _text(LEFT + value * scale + 6, top + n * ROW + ROW / 2, _number(value))


def _lines(result: Result) -> tuple[int, str]:
    """A line for each column over the rows; the rows that are marked have a ground of their own."""
    table = _values(result)
    low, high = min(map(min, table)), max(map(max, table))
    step, up = (WIDTH - 2 * 60) / max(1, len(table) - 1), PLOT / ((high - low) or 1.0)
    body = list(_head(result))
    marked = result["columns"].index(result["marked"]) if result["marked"] else None
    for n, row in enumerate(result["rows"]):
        x = 60 + n * step
        if marked is not None and row[marked]:
            body.append(_rect(x - step / 2, HEAD, step, PLOT, PALE))
        body.append(_text(x, HEAD + PLOT + 16, str(row[0]), "middle", SOFT))
    for value in (low, (low + high) / 2, high):
        y = HEAD + PLOT - (value - low) * up
        body.append(f'<path d="M60 {y:.1f}H{WIDTH - 60}" stroke="#dddddd"/>')
        body.append(_text(54, y, _number(round(value, 1)), "end", SOFT))
    for at, colour in enumerate(COLOURS[: len(result["drawn"])]):
        points = " ".join(
            f"{60 + n * step:.1f},{HEAD + PLOT - (row[at] - low) * up:.1f}" for n, row in enumerate(table)
        )
        body.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
    return HEAD + PLOT + 34, "".join(body)


def _head(result: Result) -> Iterator[str]:
    """The title; and what the colours mean, where there are several."""
    yield f'<text x="14" y="24" font-size="15" font-weight="bold">{escape(result["title"])}</text>'
    names = [*result["drawn"], *([result["marked"]] if result["marked"] else [])]
    if len(names) < 2:
        return
    x = float(WIDTH - 14 - sum(32 + 7 * len(name) for name in names))
    for name, colour in zip(names, (*COLOURS[: len(result["drawn"])], PALE), strict=False):
        yield _rect(x, 14, 12, 12, colour)
        yield _text(x + 17, 20, name, colour=SOFT)
        x += 32 + 7 * len(name)


def _values(result: Result) -> list[list[float]]:
    places = [result["columns"].index(name) for name in result["drawn"]]
    return [[float(row[at]) for at in places] for row in result["rows"]]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y + 4.5:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(_short(text))}</text>'


def _short(text: str) -> str:
    return text if len(text) <= 26 else f"{text[:25]}…"


def main(names: Sequence[str]) -> None:
    from braid.examples.stage import NAMES

    for name in names or NAMES:
        command = [str(Path(sys.executable).with_name("braid")), "demo", name, "--json"]
        played = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        (FOLDER / f"{name}.svg").write_text(picture(json.loads(played)), encoding="utf-8")
        print(f"drew {name}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
