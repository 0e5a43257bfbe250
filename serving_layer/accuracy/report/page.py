"""The report as one HTML page that needs nothing else: to be read, printed, and sent to whoever asks."""

from html import escape

from serving_layer.accuracy.explain.causes import HARMLESS, MEANINGS, UNEXPLAINED
from serving_layer.accuracy.report.headline import SOON, headline, streamed
from serving_layer.accuracy.report.markup import (
    number,
    section,
    share,
    table,
)
from serving_layer.accuracy.report.page_style import STYLE
from serving_layer.accuracy.report.plots import (
    Bar,
    Line,
    across,
    columns,
    lines,
)
from serving_layer.accuracy.report.values import Comparison, Counterexample, Report
from serving_layer.accuracy.report.words import brief, length, percent


def page(report: Report) -> str:
    sections = [
        _days(report), _completeness(report), _causes(report), _what_if(report), _lateness(report), _numbers(report),
    ]  # fmt: skip
    title = escape(f"How right is {report.view}?")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title><style>{STYLE}</style></head>
<body>{_head(report)}<main>{"".join(sections)}</main>{_foot(report)}</body></html>
"""


def _head(report: Report) -> str:
    found = streamed(report)
    verdict = (
        '<span class="verdict good">every difference is explained</span>'
        if report.holds
        else '<span class="verdict bad">this needs a look</span>'
    )
    days = f"{found.days[0].day} to {found.days[-1].day} · " if found.days else ""
    curve = report.completeness.all
    cards = [
        (percent(found.equal / found.groups if found.groups else 1), f"of {found.groups:,} groups are equal"),
        (f"{sum(one.unexplained for one in report.comparisons):,}", "groups without an explanation"),
        (percent(curve.at(SOON)) if curve.events else "–", "complete ten seconds after a window's end"),
        (f"{report.braid.lost:,} / {report.braid.twice:,}", "events lost / counted twice as served"),
    ]
    shown = "".join(f"<div><b>{escape(value)}</b><span>{escape(text)}</span></div>" for value, text in cards)
    return (
        f'<header><p class="where">{escape(report.view)}, version {report.version} · {days}'
        f"up to {report.cut:%Y-%m-%d %H:%M} UTC</p><h1>{escape(headline(report))}</h1>{verdict}"
        f'<div class="cards">{shown}</div></header>'
    )


def _days(report: Report) -> str:
    found = streamed(report)
    bars = [
        (
            f"{day.day:%d %b}",
            [
                Bar(
                    "largest error",
                    day.largest_error,
                    percent(day.largest_error),
                    "bad" if day.exceeded else "one",
                )
            ],
        )
        for day in found.days
    ]
    what = "what the stream alone would serve" if found.side == "stream alone" else "what is served"
    off = [day for day in found.days if day.largest_error or day.equal < day.groups]
    rows = [
        (
            day.day,
            f"{day.groups:,}",
            f"{day.equal:,}",
            percent(day.largest_error),
            ", ".join(day.exceeded) or "–",
        )
        for day in off
    ]
    said = f"The largest relative error of any number in any group, of {what} against a batch recompute."
    if not off:
        return section("Error by day", f"{said} It is zero on every day.", "")
    shown = table(("day", "groups", "equal", "largest error", "more than allowed"), rows)
    return section("Error by day", said, columns(bars, "The largest error of each day") + shown)


def _completeness(report: Report) -> str:
    known = report.completeness
    if not known.all.events:
        return ""
    places = [f"+{brief(point.after_seconds)}" for point in known.all.points]
    series = [Line("all", [point.share for point in known.all.points])]
    series += [Line(curve.name, [point.share for point in curve.points], "quiet") for curve in known.days]
    readable = [point.served for point in known.all.points if point.served is not None]
    legend = '<i class="key one"></i>ingested, all days <i class="key faint"></i>each day'
    if readable:
        series.append(Line("served", readable, "two"))
        legend += ' <i class="key two"></i>served, all days'
    rows = [
        (curve.name, f"{curve.events:,}", *(percent(point.share) for point in curve.points))
        for curve in (known.all, *known.keys)
    ]
    clocks = {
        "arrival": "The clock is the records' arrival.",
        "column": "The clock is the column that says when records came.",
        "event time": "The log is imported history, so the clock is the newest event that had come so far.",
    }
    return section(
        "How soon windows are complete",
        f"The share of a window's events that had come so long after its end. {clocks[known.clock]} "
        f"<span>{legend}</span>",
        lines(places, series, "Completeness after the end of a window")
        + table(("windows of", "events", *places), rows),
    )


def _causes(report: Report) -> str:
    found = streamed(report)
    if not found.causes:
        return section("Why it differs", "It does not.", "")
    tones = {UNEXPLAINED: "bad"} | dict.fromkeys(HARMLESS, "good")
    bars = [
        Bar(
            one.name,
            one.groups,
            f"{one.groups:,} group{'' if one.groups == 1 else 's'}",
            tones.get(one.name, "one"),
        )
        for one in found.causes
    ]
    rows = [(one.name, f"{one.groups:,}", f"{one.events:,}", MEANINGS[one.name]) for one in found.causes]
    example = _counterexample(found.counterexample) if found.counterexample else ""
    return section(
        "Why it differs",
        "Each difference has a cause by evidence: with the cause undone, the group computed from the log is equal.",
        across(bars, "Groups by cause") + table(("cause", "groups", "events", "meaning"), rows) + example,
    )


def _counterexample(example: Counterexample) -> str:
    group = ", ".join(f"{name} = {value}" for name, value in example.group.items())
    rows = [
        (event.partition, event.offset, event.epoch, event.time, "yes" if event.suspect else "")
        for event in example.events
    ]
    head = ("partition", "offset", "epoch", "event time", "epoch is off")
    return f"<p>The smallest group without an explanation: {escape(group)}. Its events:</p>" + table(
        head, rows
    )


def _what_if(report: Report) -> str:
    ways = (report.braid, report.what_if.classic_lambda, report.what_if.watermark)
    bars = [
        Bar(one.name, one.share, percent(one.share), "good" if one is report.braid else "two") for one in ways
    ]
    rows = [
        (
            one.name, f"{one.lost:,}", f"{one.twice:,}", f"{one.wrong_groups:,} of {one.groups:,}",
            percent(one.largest_error), one.says,
        )
        for one in ways
    ]  # fmt: skip
    head = ("", "lost", "twice", "wrong windows", "largest error", "which is")
    return section(
        "What other ways would have made of it",
        "Share of the same events, in the same order, that would be lost or counted twice. "
        + escape(report.what_if.advice),
        across(bars, "Events lost or counted twice") + table(head, rows),
    )


def _lateness(report: Report) -> str:
    late = report.lateness
    if late.median_seconds is None or late.p99_seconds is None:
        return ""
    groups = []
    for bar in late.bars:
        name = (
            "later"
            if bar.within_seconds is None
            else f"≤ {brief(bar.within_seconds)}"
            if bar.within_seconds
            else "at once"
        )
        pair = [
            Bar("after it happened", bar.came, f"{bar.came:,}"),
            Bar("behind", bar.behind, f"{bar.behind:,}", "two"),
        ]
        groups.append((name, pair))
    said = (
        f"Half of the events came within {length(late.median_seconds)} of happening, 99 % within "
        f"{length(late.p99_seconds)}; {late.late_events:,} came after their window was final. "
        '<span><i class="key one"></i>after it happened <i class="key two"></i>behind the newest event before it, '
        "which is what a watermark sees</span>"
    )
    return section("How late events are", said, columns(groups, "Events by lateness"))


def _numbers(report: Report) -> str:
    return "".join(_errors(found) for found in report.comparisons)


def _errors(found: Comparison) -> str:
    rows = [
        (
            one.name, f"{one.equal:,} of {one.groups:,}", one.missing, one.extra, number(one.largest_absolute),
            *map(share, (one.largest_relative, one.mean_relative, one.smape, one.p50, one.p90, one.p99)), one.bound,
        )
        for one in found.numbers
    ]  # fmt: skip
    head = (
        "number", "equal", "missing", "extra", "largest", "largest %", "mean %", "SMAPE", "p50", "p90", "p99",
        "promised",
    )  # fmt: skip
    return section(
        f"Every number, {'as served' if found.side == 'served' else found.side}",
        "Errors are relative to a batch recompute of the log; of an approximate number, to the exact value.",
        table(head, rows),
    )


def _foot(report: Report) -> str:
    log = report.log
    notes = "".join(f"<p>{escape(note)}</p>" for note in report.notes)
    return (
        f"<footer>{notes}<p>The log held {log.accepted:,} accepted and {log.rejected:,} rejected records; ingest had "
        f"dropped {log.duplicates_dropped:,} duplicates. Made by <code>braid compare {escape(report.view)}</code> at "
        f"{report.at:%Y-%m-%d %H:%M} UTC.</p></footer>"
    )
