"""`braid compare`: how right what is served is, how soon it was, and why it differs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from braid.cli.options import (
    Cut,
    Day,
    First,
    Last,
    a_day,
    lambda_views,
    moment,
    short,
)
from braid.cli.output import Json, console, print_json, print_table
from braid.define.loading import load_definitions
from braid.define.view import View
from braid.deploy import store as deployment
from braid.errors import BraidError, CheckFailed
from braid.runtime.settings import Settings, current_settings

if TYPE_CHECKING:
    from serving_layer.accuracy.explain.compare import Asked
    from serving_layer.accuracy.report.history import Kept
    from serving_layer.accuracy.report.values import Report


def register(app: typer.Typer) -> None:
    app.command()(compare)


def compare(
    view: Annotated[str | None, typer.Argument(help="The view; all lambda views when none is given.")] = None,
    day: Day = None,
    first: First = None,
    last: Last = None,
    cut: Cut = None,
    arrival: Annotated[
        str | None,
        typer.Option(
            "--arrival", help="The column that says when imported history really came.", metavar="COLUMN"
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the report as one HTML page here.", metavar="FILE")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Show the comparisons so far instead of making one.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare what is served with a batch recompute of the log at the same cut, and explain every difference.

    Says how wrong each number is, how soon windows were complete, and what a watermark or a classic Lambda would have
    lost on the same events. Every comparison is kept. Exit code 1 when a difference has no explanation (the smallest
    example is printed with its offsets) or a number is further off than the view's `accuracy` allows.

    Example: `braid compare page_traffic --from 2026-03-01 --to 2026-03-07 --html report.html`
    """
    settings = current_settings()
    views = _asked_views(settings, view)
    if history:
        _show_history(settings, views, json)
        return
    if html is not None:
        _require_writable(html, view)
    asked = _asked(day, first, last, cut, arrival)
    reports = [_compared(settings, one, asked) for one in views]
    if html is not None:
        from serving_layer.accuracy.report.page import page

        html.write_text(page(reports[0]), encoding="utf-8")
    _show(reports, json, single=view is not None)
    if html is not None and not json:
        console.print(f"The report is in {html}", highlight=False, markup=False, soft_wrap=True)
    if wrong := [report for report in reports if not report.holds]:
        raise typer.Exit(1) if json else CheckFailed("; ".join(map(_complaint, wrong)))


def _compared(settings: Settings, view: View, asked: "Asked") -> "Report":
    from batch_layer.compare import Recomputing
    from braid.runtime.spark import spark_session
    from serving_layer.accuracy.explain.compare import compare as judge
    from serving_layer.accuracy.report.history import keep
    from serving_layer.answer.reader import active_version

    version = active_version(settings, view.name)
    spark = spark_session(settings, "braid compare")
    report = judge(spark, settings, Recomputing(spark, settings), view, version, asked)
    keep(settings, report)
    return report


def _asked_views(settings: Settings, name: str | None) -> list[View]:
    if name is not None:
        return [load_definitions(settings.definitions).view(name)]
    return [view for view in lambda_views(settings, None) if deployment.load(settings, view.name).active]


def _asked(
    day: str | None, first: str | None, last: str | None, cut: str | None, arrival: str | None
) -> "Asked":
    from serving_layer.accuracy.explain.compare import Asked

    if day is not None and (first or last):
        raise BraidError("give either --day or a range with --from and --to, not both.")
    begin, end = (a_day(text) if text else None for text in (day or first, day or last))
    if begin is not None and end is not None and begin > end:
        raise BraidError(f"the first day, {begin}, is after the last, {end}: swap them.")
    return Asked(begin, end, moment(cut), arrival)


def _show(reports: "list[Report]", json: bool, single: bool) -> None:
    from braid.cli.serving.compare_tables import print_report
    from serving_layer.accuracy.report.documents import document

    if json:
        documents = [document(report) for report in reports]
        print_json(documents[0] if single else documents)
        return
    for report in reports:
        print_report(report)


def _show_history(settings: Settings, views: list[View], json: bool) -> None:
    from serving_layer.accuracy.report.history import history, trend
    from serving_layer.accuracy.report.words import percent

    found = [
        (view.name, one, change)
        for view in views
        for kept in [history(settings, view.name)]
        for one, change in zip(kept, trend(kept), strict=True)
    ]
    if json:
        print_json([{"view": name, "change": change} | _short(one) for name, one, change in found])
        return
    rows = (
        (
            name, short(one.at), short(one.cut), f"{one.groups:,}", percent(one.share),
            "" if change is None else f"{change:+.2%}", percent(one.largest_error), one.unexplained,
            "yes" if one.holds else "no",
        )
        for name, one, change in found
    )  # fmt: skip
    columns = ("view", "at", "cut", "groups", "equal", "change", "largest error", "unexplained", "holds")
    print_table("comparisons", columns, rows)
    if not found:
        console.print("Nothing was compared yet: `braid compare VIEW` does it.", highlight=False)


def _short(kept: "Kept") -> dict[str, Any]:
    return {name: value for name, value in vars(kept).items() if name != "report"} | {"share": kept.share}


def _complaint(report: "Report") -> str:
    parts = []
    for one in report.comparisons:
        if one.unexplained:
            parts.append(
                f"{one.unexplained:,} of {one.groups:,} groups ({one.side}) have no explanation in the log"
            )
        parts += [
            f"{name} of {day.day} ({one.side}) is off by {day.largest[name]:.4%}, where {report.allowed[name]:.4%} "
            "is allowed"
            for day in one.exceeded
            for name in day.exceeded
        ]
    return f"view {report.view!r}: {', '.join(parts)}"


def _require_writable(file: Path, view: str | None) -> None:
    """Before anything is computed: afterwards it would be too late to say so."""
    if view is None:
        raise BraidError(
            "--html writes the report of one view: name it, as in `braid compare page_traffic --html FILE`."
        )
    if file.is_dir() or not file.resolve().parent.is_dir():
        raise BraidError(f"{file} cannot be written: name a file in a folder that exists.")
