"""The report as one HTML page that needs nothing else: to be read, printed, and sent to whoever asks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined

from braid.define.durations import brief, length, percent
from serving_layer.accuracy.lateness.curves import Completeness, Lateness, Losses
from serving_layer.accuracy.report.values import (
    HARMLESS,
    MEANINGS,
    SOON,
    UNEXPLAINED,
    Comparison,
    Counterexample,
    Report,
    headline,
    streamed,
)

CLOCKS = {
    "arrival": "The clock is the records' arrival.",
    "column": "The clock is the column that says when records came.",
    "event time": "The log is imported history, so the clock is the newest event that had come so far.",
}
Cells = Sequence[Any]


@dataclass(frozen=True)
class DrawnBar:
    """A bar with its value as text; `tone` is a class of the style sheet."""

    label: str
    value: float
    text: str
    tone: str = "one"


@dataclass(frozen=True)
class DrawnBars:
    """The bars at one place of an axis."""

    name: str
    bars: list[DrawnBar]


@dataclass(frozen=True)
class DrawnLine:
    """A line over the places of an axis: in one tone or another, or quiet, as background for the others."""

    label: str
    shares: Sequence[float]
    tone: Literal["one", "two", "quiet"] = "one"


def page(report: Report) -> str:
    found, known = streamed(report), report.completeness
    ways = (report.braid, report.what_if.classic_lambda, report.what_if.watermark)
    return templates().get_template("page.html").render(
        report=report, found=found, headline=headline(report),
        soon=percent(known.all.at(SOON)) if known.all.events else "–",
        day_bars=_day_bars(found), wrong_days=_wrong_days(found),
        clock=CLOCKS[known.clock], places=[f"+{brief(point.after_seconds)}" for point in known.all.points],
        curves=_curves(known), is_served_known=any(point.served is not None for point in known.all.points),
        complete=_complete(known),
        cause_bars=_cause_bars(found),
        causes=[(one.name, f"{one.groups:,}", f"{one.events:,}", MEANINGS[one.name]) for one in found.causes],
        suspects=_suspects(found.counterexample),
        way_bars=[DrawnBar(w.name, w.share, percent(w.share), "good" if w is report.braid else "two") for w in ways],
        ways=_ways(ways), late_groups=_late_groups(report.lateness),
        all_numbers=[(one, _numbers(one)) for one in report.comparisons],
    )  # fmt: skip


@cache
def templates() -> Environment:
    """Everything is escaped that is not written in a template itself."""
    made = Environment(
        loader=PackageLoader("serving_layer.accuracy.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {
        "percent": percent, "length_of_time": length, "thousands": lambda number: f"{number:,}",
        "px": lambda place: f"{place:.1f}", "minute": lambda moment: f"{moment:%Y-%m-%d %H:%M}",
    }  # fmt: skip
    return made


def _day_bars(found: Comparison) -> list[DrawnBars]:
    return [
        DrawnBars(f"{day.day:%d %b}", [
            DrawnBar("largest error", day.largest_error, percent(day.largest_error), "bad" if day.exceeded else "one")
        ])
        for day in found.days
    ]  # fmt: skip


def _wrong_days(found: Comparison) -> list[Cells]:
    return [
        (day.day, f"{day.groups:,}", f"{day.equal:,}", percent(day.largest_error), ", ".join(day.exceeded) or "–")
        for day in found.days_off
    ]  # fmt: skip


def _curves(known: Completeness) -> list[DrawnLine]:
    """Those of single days first, so that they lie behind the others."""
    quiet = [DrawnLine(one.name, [point.share for point in one.points], "quiet") for one in known.days]
    served = [point.served for point in known.all.points if point.served is not None]
    whole = DrawnLine("all", [point.share for point in known.all.points])
    return [*quiet, whole, *([DrawnLine("served", served, "two")] if served else [])]


def _complete(known: Completeness) -> list[Cells]:
    return [
        (curve.name, f"{curve.events:,}", *(percent(point.share) for point in curve.points))
        for curve in (known.all, *known.keys)
    ]


def _cause_bars(found: Comparison) -> list[DrawnBar]:
    tones = {UNEXPLAINED: "bad"} | dict.fromkeys(HARMLESS, "good")
    return [
        DrawnBar(
            one.name, one.groups, f"{one.groups:,} group{'' if one.groups == 1 else 's'}", tones.get(one.name, "one")
        )
        for one in found.causes
    ]  # fmt: skip


def _suspects(example: Counterexample | None) -> list[Cells]:
    return [
        (
            event.partition,
            event.offset,
            event.epoch,
            event.arrival,
            event.time,
            "yes" if event.suspect else "",
        )
        for event in (example.events if example else ())
    ]


def _ways(ways: Iterable[Losses]) -> list[Cells]:
    return [
        (
            one.name, f"{one.lost:,}", f"{one.twice:,}", f"{one.wrong_groups:,} of {one.groups:,}",
            percent(one.largest_error), one.says,
        )
        for one in ways
    ]  # fmt: skip


def _late_groups(late: Lateness) -> list[DrawnBars]:
    """Nothing where there are no events."""
    if late.median_seconds is None or late.p99_seconds is None:
        return []
    return [
        DrawnBars(_within(bar.within_seconds), [
            DrawnBar("after it happened", bar.came, f"{bar.came:,}"),
            DrawnBar("behind", bar.behind, f"{bar.behind:,}", "two"),
        ])
        for bar in late.bars
    ]  # fmt: skip


def _within(seconds: int | None) -> str:
    if seconds is None:
        return "later"
    return f"≤ {brief(seconds)}" if seconds else "at once"


def _numbers(found: Comparison) -> list[Cells]:
    return [
        (
            one.name, f"{one.equal:,} of {one.groups:,}", one.missing, one.extra,
            "" if one.largest_absolute is None else f"{one.largest_absolute:.6g}",
            *map(percent, (one.largest_relative, one.mean_relative, one.smape, one.p50, one.p90, one.p99)), one.bound,
        )
        for one in found.numbers
    ]  # fmt: skip
