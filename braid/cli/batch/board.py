"""Days as tables for people and as JSON for programs: the board, the plan, and what a run came to."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from braid.cli.options import number, short
from braid.cli.output import console, failed, print_json, print_table

if TYPE_CHECKING:
    from batch_layer.days import Gate
    from batch_layer.plan import PlannedDay
    from batch_layer.tasks import DayResult

COLOURS = {
    "up to date": "green",
    "stale": "yellow",
    "never computed": "cyan",
    "definition changed": "magenta",
    "tail lost": "bold red",
    "base lost": "bold red",
    "held": "bold red",
}


def board_rows(planned: "list[PlannedDay]") -> list[dict[str, Any]]:
    """What the board says, as plain values."""
    return [_row(day) for day in planned]


def print_board(planned: "list[PlannedDay]") -> None:
    table = Table(title="batch board", title_justify="left", header_style="bold")
    for column in ("view", "day", "state", "events", "rows", "cut", "behind", "gate", "served before"):
        table.add_column(column, justify="right" if column in ("events", "rows", "behind") else "left")
    for day in planned:
        row = _row(day)
        table.add_row(
            day.view, str(day.day), f"[{COLOURS[day.state]}]{day.state}[/]", f"{day.events:,}",
            "" if row["rows"] is None else f"{row['rows']:,}", f"{row['cut']:%Y-%m-%d %H:%M}" if row["cut"] else "",
            f"[yellow]{day.beyond:,}[/]" if day.beyond else "", _gate_cell(row), _accuracy_cell(row),
        )  # fmt: skip
    console.print(table)
    for day in planned:
        if day.state == "held":
            console.print(f"[bold red]held[/] {day.view} {day.day}: {escape(day.reason)}", highlight=False)


def day_as_dict(day: "PlannedDay") -> dict[str, Any]:
    names = ("view", "day", "state", "reason", "is_due", "cut", "through", "events", "beyond", "since")
    parts = asdict(day)
    return {name: parts[name] for name in names}


def print_gates(day: str, gates: "Mapping[str, Gate]") -> None:
    """What the input gates of each source said of a day."""
    rows = (
        (name, check.name, check.wanted, number(check.observed), _word(check.ok, found.is_released))
        for name, found in gates.items()
        for check in found.verdict.checks
    )
    print_table(f"input gates of {day}", ("source", "expectation", "wanted", "observed", "ok"), rows)


def show_results(results: "list[DayResult]", json: bool) -> None:
    if json:
        print_json([asdict(one) for one in results])
    else:
        columns = ("view", "day", "outcome", "events", "duplicates", "rows", "cut")
        rows = (
            (r.view, r.day, r.outcome, f"{r.events:,}", r.duplicates or "", f"{r.rows:,}", short(r.cut))
            for r in results
        )
        print_table("batch run", columns, rows)
        if not results:
            console.print("Nothing to compute: everything is up to date.")
    held = [one for one in results if one.outcome == "held"]
    if held:
        reasons: dict[tuple[date, str], list[str]] = {}
        for one in held:
            reasons.setdefault((one.day, one.reason.rstrip(".")), []).append(one.view)
        said = "; ".join(
            f"{day} is held in {', '.join(names)}: {why}" for (day, why), names in reasons.items()
        )
        raise failed(
            json,
            f"{said}. What was published before stays in service, with the tail. Mend the data and run again, or "
            f"overrule the gate: `braid batch release {held[0].day} --because TEXT`.",
        )


def _row(day: "PlannedDay") -> dict[str, Any]:
    publish, gate = day.record.publish, day.gate or day.record.gate
    accuracy = publish.accuracy if publish else None
    return {
        "view": day.view,
        "day": day.day,
        "state": day.state,
        "reason": day.reason,
        "events": day.events,
        "rows": publish.rows if publish else None,
        "duplicates": publish.duplicates if publish else None,
        "cut": day.through,
        "published": publish.at if publish else None,
        "beyond": day.beyond,
        "since": day.since,
        "gate": None
        if gate is None
        else "held"
        if day.gate
        else "released"
        if gate.is_released
        else "passed",
        "failing": [] if gate is None else [check.name for check in gate.verdict.checks if not check.ok],
        "released_because": gate.released.because if gate and gate.released and gate.is_released else None,
        "accuracy": None if accuracy is None else accuracy.share,
        "largest_error": None if accuracy is None else accuracy.largest_error,
    }


def _gate_cell(row: dict[str, Any]) -> str:
    colours = {"held": "bold red", "released": "yellow", "passed": "green", None: "dim"}
    return f"[{colours[row['gate']]}]{row['gate'] or ''}[/]" if row["gate"] else ""


def _accuracy_cell(row: dict[str, Any]) -> str:
    """Of the groups that were served before the publish, how many were right, and how wrong the worst one was."""
    if row["accuracy"] is None:
        return ""
    if row["accuracy"] == 1:
        return "[green]all right[/]"
    return f"[yellow]{row['accuracy']:.2%} right, worst off by {row['largest_error']:.1%}[/]"


def _word(ok: bool, released: bool) -> str:
    return "ok" if ok else "released" if released else "no"
