"""A comparison on a terminal: the headline, then tables from the number to its reasons."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from braid.cli.options import short
from braid.cli.output import console, mark, print_table
from braid.define.durations import brief, length, percent

if TYPE_CHECKING:
    from braid.parity import Parity
    from serving_layer.accuracy.report.values import Comparison, Counterexample, Report

# The newest: `--json` has them all.
MOST_DAYS = 7
CLOCKS = {
    "arrival": "arrival",
    "column": "the column that says when records came",
    "event time": "the events themselves, as for imported history",
}


def print_report(report: "Report") -> None:
    from serving_layer.accuracy.report.values import headline

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
    """Two tables: side by side their columns would not fit on a screen."""
    against = f"{report.view} v{report.version}, {found.side}, against a recompute at {short(report.cut)}"
    rows = (
        (
            escape(one.name),
            f"{one.groups:,}",
            f"{one.equal:,}",
            one.different,
            one.missing,
            one.extra,
            one.bound,
        )
        for one in found.numbers
    )
    columns = ("number", "groups", "equal", "different", "missing", "extra", "promised")
    print_table(escape(against), columns, rows)
    off = [one for one in found.numbers if one.largest_absolute]
    if off:
        errors = (
            (
                escape(one.name), _number(one.largest_absolute), _number(one.mean_absolute),
                *map(percent, (one.largest_relative, one.mean_relative, one.smape, one.p50, one.p90, one.p99)),
            )
            for one in off
        )  # fmt: skip
        measures = ("number", "largest", "mean", "largest %", "mean %", "SMAPE", "p50", "p90", "p99")
        print_table("errors", measures, errors)


def _days(found: "Comparison") -> None:
    off = found.days_off
    if not off:
        _say("No day is off.")
        return
    marked = bool(found.exceeded)
    rows = (
        (day.day, short(day.cut), f"{day.groups:,}", f"{day.equal:,}", percent(day.largest_error))
        + ((escape(", ".join(day.exceeded)),) if marked else ())
        for day in off
    )
    columns = ("day", "cut", "groups", "equal", "largest error") + (("more than allowed",) if marked else ())
    print_table(f"{len(off):,} of {len(found.days):,} days are off", columns, rows)


def _causes(found: "Comparison") -> None:
    from serving_layer.accuracy.report.values import MEANINGS

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
    columns = ("_partition", "_offset", "_epoch", "_arrival", "event time", "epoch is off")
    print_table("its events", columns, rows)
    if example.more:
        _say(f"and {example.more:,} more")


def _completeness(report: "Report") -> None:
    curves = (report.completeness.all, *report.completeness.days[-MOST_DAYS:], *report.completeness.keys)
    after = [point.after_seconds for point in report.completeness.all.points]
    rows = ((escape(curve.name), *(percent(point.share) for point in curve.points)) for curve in curves)
    title = f"how complete windows were after their end, by the clock of {CLOCKS[report.completeness.clock]}"
    print_table(title, ("windows of", *(f"+{brief(seconds)}" for seconds in after)), rows)
    late = report.lateness
    if late.median_seconds is not None and late.p99_seconds is not None:
        _say(
            f"Half of the events came within {length(late.median_seconds)}, 99 % within {length(late.p99_seconds)}; "
            f"{late.late_events:,} came after their window was final."
        )


def _others(report: "Report") -> None:
    rows = (
        (
            one.name, f"{one.lost:,}", f"{one.twice:,}", percent(one.share), f"{one.wrong_groups:,} of {one.groups:,}",
            percent(one.largest_error),
        )
        for one in (report.braid, report.what_if.classic_lambda, report.what_if.watermark)
    )  # fmt: skip
    columns = ("way", "lost", "twice", "of all", "wrong windows", "largest error")
    print_table("what if: the same events in other hands", columns, rows)


def _say(text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def _values(side: Mapping[str, Any] | None) -> str:
    return "nothing" if side is None else ", ".join(f"{name}={value}" for name, value in side.items())


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def print_parities(name: str, parities: "Sequence[Parity]") -> None:
    """One version against others, group by group, with the first examples of what differs."""
    print_table(
        f"v{parities[0].version} of {name} at {parities[0].cut:%F %T}Z",
        ("against", "groups", "equal", "different", "missing", "extra", ""),
        [
            (p.against, p.groups, p.equal, p.different, p.missing, p.extra, p.not_comparable or mark(p.holds))
            for p in parities
        ],
    )
    for parity in parities:
        for example in parity.examples:
            console.print(f"  {example}", highlight=False)
