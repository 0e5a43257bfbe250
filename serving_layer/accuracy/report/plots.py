"""Plots as plain SVG: no script, readable in print, coloured by the page's style sheet in light and dark."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

WIDTH = 860
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 16, 34


@dataclass(frozen=True)
class Bar:
    """A bar with its value as text; `tone` is a class of the style sheet."""

    label: str
    value: float
    text: str
    tone: str = "one"


@dataclass(frozen=True)
class Line:
    """A line over the places of an axis: in one tone or another, or quiet, as background for the others."""

    label: str
    values: Sequence[float]
    tone: Literal["one", "two", "quiet"] = "one"


def across(bars: Sequence[Bar], label: str) -> str:
    """Horizontal bars, each with its name before and its value behind it."""
    row, start, room = 34, 220, WIDTH - 220 - 150
    most = max((bar.value for bar in bars), default=0) or 1
    parts = []
    for number, bar in enumerate(bars):
        y = number * row
        # What is not nothing is seen, however little it is.
        length = max(bar.value / most * room, 3 if bar.value else 0)
        parts.append(
            f'<text class="name" x="{start - 12}" y="{y + 21}" text-anchor="end">{escape(bar.label)}</text>'
            f'<rect class="{bar.tone}" x="{start}" y="{y + 6}" width="{length:.1f}" height="22" rx="3">'
            f"<title>{escape(bar.label)}: {escape(bar.text)}</title></rect>"
            f'<text x="{start + length + 8:.1f}" y="{y + 21}">{escape(bar.text)}</text>'
        )
    return _svg(len(bars) * row + 4, label, parts)


def columns(groups: Sequence[tuple[str, Sequence[Bar]]], label: str, height: int = 240) -> str:
    """Vertical bars side by side, one group for each place of the axis."""
    most = max((bar.value for _, bars in groups for bar in bars), default=0) or 1
    floor, room = height - BOTTOM, height - BOTTOM - TOP - 14
    step = (WIDTH - LEFT - RIGHT) / max(len(groups), 1)
    named = _every(len(groups))
    parts = [_rule(floor)]
    for place, (name, bars) in enumerate(groups):
        width = min(step * 0.72 / max(len(bars), 1), 46)
        start = LEFT + step * (place + 0.5) - width * len(bars) / 2
        for number, bar in enumerate(bars):
            tall = max(bar.value / most * room, 2 if bar.value else 0)
            x = start + number * width
            parts.append(
                f'<rect class="{bar.tone}" x="{x:.1f}" y="{floor - tall:.1f}" width="{width - 2:.1f}" '
                f'height="{tall:.1f}" rx="2">'
                f"<title>{escape(name)}, {escape(bar.label)}: {escape(bar.text)}</title></rect>"
            )
            if len(groups) <= 12 and bar.value:
                parts.append(
                    f'<text class="small" x="{x + width / 2 - 1:.1f}" y="{floor - tall - 5:.1f}" '
                    f'text-anchor="middle">{escape(bar.text)}</text>'
                )
        if place % named == 0:
            parts.append(_tick(LEFT + step * (place + 0.5), height, name))
    return _svg(height, label, parts)


def lines(places: Sequence[str], series: Sequence[Line], label: str, height: int = 300) -> str:
    """Shares from 0 to 1 over places of an axis that are equally far apart."""
    floor, room = height - BOTTOM, height - BOTTOM - TOP
    step = (WIDTH - LEFT - RIGHT - 40) / max(len(places) - 1, 1)

    def at(place: int, value: float) -> tuple[float, float]:
        return LEFT + 20 + place * step, floor - value * room

    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = floor - share * room
        parts.append(
            _rule(y)
            + f'<text class="small" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        )
    parts += [_tick(at(place, 0)[0], height, name) for place, name in enumerate(places)]
    for line in sorted(series, key=lambda line: line.tone != "quiet"):
        points = [at(place, value) for place, value in enumerate(line.values)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(
            f'<polyline class="line {line.tone}" points="{path}"><title>{escape(line.label)}</title></polyline>'
        )
        if line.tone != "quiet":
            parts += [
                f'<circle class="{line.tone}" cx="{x:.1f}" cy="{y:.1f}" r="4">'
                f"<title>{escape(line.label)}, {escape(name)}: {value:.4%}</title></circle>"
                for name, value, (x, y) in zip(places, line.values, points, strict=True)
            ]
    return _svg(height, label, parts)


def _every(places: int) -> int:
    """Of how many places one is named, so that names do not overlap."""
    return max(1, -(-places // 14))


def _rule(y: float) -> str:
    return f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _tick(x: float, height: int, name: str) -> str:
    return f'<text class="small" x="{x:.1f}" y="{height - 12}" text-anchor="middle">{escape(name)}</text>'


def _svg(height: float, label: str, parts: Sequence[str]) -> str:
    return f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {WIDTH} {height:.0f}">{"".join(parts)}</svg>'
