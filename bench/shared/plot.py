"""Draws how cost grows as one SVG without scripts: a panel for each axis, both scales logarithmic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

WIDTH, HEIGHT = 300, 260
LEFT, TOP, RIGHT, BOTTOM = 48, 56, 16, 40
IN_A_ROW = 3
COLOURS = ("#1f5fa8", "#d1762a")


@dataclass(frozen=True)
class GrowthCurve:
    """Seconds over sizes, with the slope through their logarithms."""

    axis: str
    name: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    slope: float


@dataclass(frozen=True)
class Scale:
    """From values to places, by logarithm; from and to powers of ten, or of two where there is little to show."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.begin + share * (self.end - self.begin)


def plot(lines: Sequence[GrowthCurve]) -> str:
    panels = [list(group) for _, group in groupby(lines, key=lambda line: line.axis)]
    rows = -(-len(panels) // IN_A_ROW)
    drawn = "".join(
        _panel(panel, number % IN_A_ROW * WIDTH, number // IN_A_ROW * HEIGHT)
        for number, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {min(len(panels), IN_A_ROW) * WIDTH} {rows * HEIGHT}" '
        f'font-family="sans-serif" font-size="11" fill="#333"><rect width="100%" height="100%" fill="#fff"/>'
        f"{drawn}</svg>\n"
    )


def _panel(lines: list[GrowthCurve], left: float, top: float) -> str:
    sizes = lines[0].sizes
    times = [seconds for line in lines for seconds in line.seconds]
    across = Scale(sizes[0], sizes[-1], LEFT, WIDTH - RIGHT)
    low, high = 10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times)))
    up = Scale(low, high, HEIGHT - BOTTOM, TOP)
    parts = [_text(LEFT, 16, lines[0].axis, weight="bold")]
    for size in sizes:
        parts.append(_text(across(size), HEIGHT - BOTTOM + 16, _short(size), anchor="middle"))
    seconds = low
    while seconds <= high:
        y = up(seconds)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 6, y + 4, f"{seconds:g} s", anchor="end"))
        seconds *= 10
    for number, line in enumerate(lines):
        parts.append(_line(line, COLOURS[number % len(COLOURS)], across, up, number))
    return f'<g transform="translate({left:g} {top:g})">{"".join(parts)}</g>'


def _line(line: GrowthCurve, colour: str, across: Scale, up: Scale, number: int) -> str:
    places = [(across(size), up(seconds)) for size, seconds in zip(line.sizes, line.seconds, strict=True)]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places)
    said = f"{line.name}: slope {line.slope:.2f}"
    return f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}' + _text(
        LEFT, 30 + 13 * number, said, colour=colour
    )


def _text(
    x: float, y: float, text: str, anchor: str = "start", weight: str = "normal", colour: str = "#333"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">'
        f"{escape(text)}</text>"
    )


def _short(size: int) -> str:
    if size >= 1_000_000:
        return f"{size / 1_000_000:g}M"
    return f"{size / 1_000:g}k" if size >= 1_000 else str(size)
