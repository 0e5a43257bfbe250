"""A comparison on a terminal: the headline, then tables from the number to its reasons."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from braid.cli.batch_options import short
from braid.cli.output import console, print_table

if TYPE_CHECKING:
    from serving_layer.accuracy.values import Comparison, Counterexample, Report

MOST_DAYS = 31


def print_report(report: "Report") -> None:
    from serving_layer.accuracy.headline import headline

    _say(f"[bold]{escape(headline(report))}[/]")
    for found in report.comparisons:
        _numbers(report, found)
        _days(found)
        _causes(found)
        if found.counterexample is not None:
            _counterexample(found.counterexample)
    _completeness(report)
    _others(report)
    _say(escape(report.what_if.advice))
    for note in report.notes:
        _say(f"[yellow]note[/]: {escape(note)}")


def _numbers(report: "Report", found: "Comparison") -> None:
    against = f"{report.view} v{report.version}, {found.side}, against a recompute at {short(report.cut)}"
    columns = (
        "number", "groups", "equal", "different", "missing", "extra", "largest", "mean", "largest %", "mean %",
        "SMAPE", "p50", "p90", "p99", "promised",
    )  # fmt: skip
    rows = (
        (
            escape(one.name), f"{one.groups:,}", f"{one.equal:,}", one.different, one.missing, one.extra,
            _number(one.largest_absolute), _number(one.mean_absolute), _percent(one.largest_relative),
            _percent(one.mean_relative), _percent(one.smape), _percent(one.p50), _percent(one.p90),
            _percent(one.p99), one.bound,
        )
        for one in found.numbers
    )  # fmt: skip
    print_table(escape(against), columns, rows)


def _days(found: "Comparison") -> None:
    rows = (
        (
            day.day, short(day.cut), f"{day.groups:,}", f"{day.equal:,}", _percent(day.largest_error),
            escape(", ".join(day.exceeded)),
        )
        for day in found.days[-MOST_DAYS:]
    )  # fmt: skip
    print_table("by day", ("day", "cut", "groups", "equal", "largest error", "more than allowed"), rows)


def _causes(found: "Comparison") -> None:
    from serving_layer.accuracy.causes import MEANINGS

    if found.causes:
        rows = ((one.name, f"{one.groups:,}", f"{one.events:,}", MEANINGS[one.name]) for one in found.causes)
        print_table("why", ("cause", "groups", "events", "meaning"), rows)


def _counterexample(example: "Counterexample") -> None:
    group = ", ".join(f"{name}={value}" for name, value in example.group.items())
    _say(f"[bold red]the smallest group without an explanation[/]: {escape(group)}")
    _say(f"served: {escape(_values(example.served))}; the log gives: {escape(_values(example.right))}")
    rows = (
        (
            event.partition,
            event.offset,
            event.epoch,
            event.arrival,
            event.time,
            "here" if event.suspect else "",
        )
        for event in example.events
    )
    print_table(
        "its events", ("_partition", "_offset", "_epoch", "_arrival", "event time", "epoch is off"), rows
    )
    if example.more:
        _say(f"and {example.more:,} more")


def _completeness(report: "Report") -> None:
    from serving_layer.accuracy.words import length, percent

    curves = (report.completeness.all, *report.completeness.days[-MOST_DAYS:], *report.completeness.keys)
    after = [point.after_seconds for point in report.completeness.all.points]
    rows = ((escape(c.name), f"{c.events:,}", *(percent(point.share) for point in c.points)) for c in curves)
    title = f"how complete windows were after their end, by the clock of {report.completeness.clock}"
    print_table(title, ("windows of", "events", *map(length, after)), rows)
    late = report.lateness
    if late.median_seconds is not None and late.p99_seconds is not None:
        _say(
            f"Half of the events came within {length(late.median_seconds)}, 99 % within {length(late.p99_seconds)}; "
            f"{late.late_events:,} came after their window was final."
        )


def _others(report: "Report") -> None:
    from serving_layer.accuracy.words import percent

    rows = (
        (
            one.name, f"{one.lost:,}", f"{one.twice:,}", percent(one.share), f"{one.wrong_groups:,} of {one.groups:,}",
            percent(one.largest_error), one.says,
        )
        for one in (report.braid, report.what_if.classic_lambda, report.what_if.watermark)
    )  # fmt: skip
    columns = ("on the same events", "lost", "twice", "of all", "wrong windows", "largest error", "which is")
    print_table("what if", columns, rows)


def _say(text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def _values(side: Mapping[str, Any] | None) -> str:
    return "nothing" if side is None else ", ".join(f"{name}={value}" for name, value in side.items())


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.4%}"
