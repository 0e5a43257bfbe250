"""`braid compare`: how right what is served is, how soon it was, and why it differs; or one version against another."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from braid.cli.options import Cut, Day, First, Last, asked_days, lambda_views, moment, require_writable, short
from braid.cli.output import Json, console, failed, print_json, print_table
from braid.cli.serving.compare_derived import compare_derived, derived_source
from braid.define.durations import percent
from braid.define.loading import load_definitions
from braid.define.view import View
from braid.deploy import store as deployment
from braid.errors import BraidError
from braid.runtime.settings import Settings, current_settings

if TYPE_CHECKING:
    from batch_layer.plan import Days
    from serving_layer.accuracy.explain.compare import CompareOptions
    from serving_layer.accuracy.report.history import Kept
    from serving_layer.accuracy.report.values import Report

BATCH, ACTIVE = "batch", "active"


def compare(
    view: Annotated[
        str | None,
        typer.Argument(help="A view, or a derived source; all lambda views when none is given."),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            help="What to compare with: a batch recompute of the log, the active version, or another one.",
            metavar="batch|active|VERSION",
        ),
    ] = BATCH,
    number: Annotated[
        int | None,
        typer.Option(
            "--version", help="The version to compare: the one that is served; against active, the candidate."
        ),
    ] = None,
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

    Of a derived source: what its stream has drawn beside what batch draws from its inputs' logs, and what was too late.
    Exit code 1 if the log has an event that batch does not draw.

    With `--against active` or a version's number, two versions are compared group by group at the same cut. Exit code
    1 if they differ.

    Example: `braid compare page_traffic --from 2026-03-01 --to 2026-03-07 --html report.html`
    """
    settings = current_settings()
    only_batch = {
        "--day": day,
        "--from": first,
        "--to": last,
        "--cut": cut,
        "--arrival": arrival,
        "--html": html,
    }
    if (join := derived_source(settings, view)) is not None:
        compare_derived(settings, join, only_batch | {"--history": history, "--version": number}, json)
        return
    if against != BATCH:
        _require_two_versions(view, against, only_batch | {"--history": history})
        assert view is not None
        _compare_versions(settings, view, against, number, json)
        return
    views = _asked_views(settings, view, number)
    if history:
        _show_history(settings, views, json)
        return
    if html is not None and view is None:
        raise BraidError(
            "--html writes the report of one view: name it, as in `braid compare page_traffic --html FILE`."
        )
    require_writable(html)
    asked = _asked(asked_days(day, first, last), cut, arrival)
    reports = [_compared(settings, one, asked, number) for one in views]
    if html is not None:
        from serving_layer.accuracy.report.page import page

        html.write_text(page(reports[0]), encoding="utf-8")
    _show(reports, json, single=view is not None)
    if html is not None and not json:
        console.print(f"The report is in {html}", highlight=False, markup=False, soft_wrap=True)
    if wrong := [report for report in reports if not report.holds]:
        raise failed(json, "; ".join(map(_complaint, wrong)))


def _compared(settings: Settings, view: View, asked: "CompareOptions", number: int | None) -> "Report":
    from braid.runtime.spark import spark_session
    from serving_layer.accuracy.explain.compare import compare as judge
    from serving_layer.accuracy.report.history import keep
    from serving_layer.answer.reader import active_version

    served = active_version(settings, view.name)
    version = served if number is None else deployment.load(settings, view.name).version(number)
    report = judge(spark_session(settings, "braid compare"), settings, view, version, asked)
    # What is kept tells how right the served numbers were.
    if version.number == served.number:
        keep(settings, report)
    return report


def _compare_versions(settings: Settings, name: str, against: str, number: int | None, json: bool) -> None:
    from braid.cli.serving.compare_tables import print_parities
    from speed_layer.promotion import candidate_of

    deployed = deployment.load(settings, name)
    if deployed.active is None:
        load_definitions(settings.definitions).view(name)
        raise BraidError(f"view {name!r} is not deployed yet: `braid apply {name}` does it.")
    if against == ACTIVE:
        version, other = candidate_of(deployed, number), deployed.active
    else:
        version = deployed.active if number is None else deployed.version(number)
        other = deployed.version(int(against))
    if version.number == other.number:
        raise BraidError(f"v{version.number} of view {name!r} is both sides: name another with --version.")
    from braid.parity import side_by_side, with_version
    from braid.runtime.spark import spark_session

    states = side_by_side(spark_session(settings, "braid compare"), settings, version, other)
    found = with_version(version, other, states)
    if json:
        print_json(asdict(found) | {"holds": found.holds})
    else:
        print_parities(name, [found])
    if not found.holds:
        raise failed(json, found.says())


def _require_two_versions(view: str | None, against: str, only_batch: dict[str, Any]) -> None:
    if against != ACTIVE and not against.isdigit():
        raise BraidError(f"--against {against!r} is not known: write batch, active, or a version's number.")
    if view is None:
        raise BraidError(
            "name the view whose versions are compared, as in `braid compare VIEW --against active`."
        )
    if given := [option for option, value in only_batch.items() if value]:
        raise BraidError(
            f"{given[0]} belongs to a comparison with the log: leave it out, or --against {against}."
        )


def _asked_views(settings: Settings, name: str | None, number: int | None) -> list[View]:
    if name is None and number is not None:
        raise BraidError("name the view whose version is compared, as in `braid compare VIEW --version 2`.")
    if name is not None:
        return [load_definitions(settings.definitions).view(name)]
    return [view for view in lambda_views(settings, None) if deployment.load(settings, view.name).active]


def _asked(days: "Days", cut: str | None, arrival: str | None) -> "CompareOptions":
    from serving_layer.accuracy.explain.compare import CompareOptions

    return CompareOptions(days.first, days.last, moment(cut), arrival)


def _show(reports: "list[Report]", json: bool, single: bool) -> None:
    from braid.cli.serving.compare_tables import print_report
    from serving_layer.accuracy.report.history import document

    if json:
        documents = [document(report) for report in reports]
        print_json(documents[0] if single else documents)
        return
    for report in reports:
        print_report(report)


def _show_history(settings: Settings, views: list[View], json: bool) -> None:
    from serving_layer.accuracy.report.history import history, trend

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
