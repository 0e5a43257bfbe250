"""`braid plan` and `braid apply`: what the definitions change in what is deployed, what it costs, and doing it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from braid.cli.options import ViewNames
from braid.cli.output import Json, console, errors, failed, print_json, print_table
from braid.define.loading import load_definitions
from braid.define.source import Source
from braid.deploy import plan as planning
from braid.deploy.plan import Cost, CostOf, PlannedChange
from braid.deploy.store import deployments
from braid.runtime.settings import Settings, current_settings
from braid.runtime.signals import stop_on_signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from speed_layer.stream.replay import Progress as Seen
    from speed_layer.stream.replay import Watch


def plan(
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 when there is something to do, for CI.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare the definitions with what is deployed: what differs, what `braid apply` will do, and what it costs.

    Changes nothing, and starts no Spark: the events that a new or changed view has to read are counted without it.

    Example: `braid plan --check`
    """
    settings = current_settings()
    changes = planned(settings)
    due = [change for change in changes if change.is_due]
    if json:
        print_json([as_dict(change) for change in changes])
    else:
        columns = ("view", "change", "what differs", "cost", "action")
        print_table("plan", columns, ([escape(cell) for cell in _row(change)] for change in changes))
        console.print(_summary(due))
    if check and due:
        views = ", ".join(change.name for change in due)
        raise failed(json, f"what is deployed is not what is defined: {views}. `braid apply` does it.")


def apply(
    names: ViewNames = None,
    json: Json = False,
) -> None:
    """Do what `braid plan` shows: start, replay, compare and promote. Reads answer from the old version meanwhile."""
    from braid.runtime.spark import spark_session
    from speed_layer.promotion import Applier

    settings = current_settings()

    def spark() -> "SparkSession":
        return spark_session(settings, "braid apply")

    changes = [change for change in planned(settings) if change.is_due]
    for name in names or ():
        load_definitions(settings.definitions).view(name)
    with stop_on_signals() as stop, progress_bar(quiet=json) as watch:
        applier = Applier(spark, settings, watch, stop)
        done = [applier.apply(change) for change in changes if not names or change.name in names]
    if json:
        print_json([asdict(one) for one in done])
    elif done:
        print_table(
            "applied", ("view", "version", "what was done"), [(d.name, d.version, d.did) for d in done]
        )
    else:
        console.print("nothing to do: what is deployed is what is defined.")


@contextmanager
def progress_bar(quiet: bool) -> "Iterator[Watch]":
    """Events, days, events a second and the time that is left; on stderr, so that output stays what was asked for."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(),
        TextColumn("{task.completed:,}/{task.total:,} events, {task.fields[days]} days, {task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=errors, disable=quiet) as bar:
        task = bar.add_task("starting", total=0, days=0, rate=0.0)

        def watch(seen: "Seen") -> None:
            bar.update(
                task,
                description=seen.stage,
                completed=seen.events,
                total=seen.total,
                days=seen.days,
                rate=seen.rate,
            )

        yield watch


def planned(settings: Settings) -> tuple[PlannedChange, ...]:
    """The plan for the definitions and deployments of these settings."""
    definitions = load_definitions(settings.definitions)
    return planning.plan(definitions, deployments(settings), log_cost(settings))


def log_cost(settings: Settings) -> CostOf:
    """What the log of a view's source holds: all of it is read by a view that begins or is replayed."""

    @cache
    def of_source(source: Source) -> Cost:
        from batch_layer.arrivals import Arrivals
        from braid.log.table import Log

        arrivals = Arrivals.of(Log(source, settings))
        return Cost(sum(row.accepted for row in arrivals.rows), len(arrivals.days))

    return lambda view: of_source(view.source)


def as_dict(change: PlannedChange) -> dict[str, Any]:
    """A planned change as plain data."""
    return {
        "view": change.name,
        "change": change.kind,
        "step": change.step,
        "version": change.version,
        "differences": [asdict(difference) for difference in change.differences],
        "fingerprint": {"old": change.old, "new": change.new},
        "cost": asdict(change.cost),
        "action": change.action,
    }


def _row(change: PlannedChange) -> tuple[str, ...]:
    differs = [str(difference) for difference in change.differences]
    if change.old and change.new and change.old != change.new:
        differs.append(f"fingerprint: {change.old} -> {change.new}")
    return change.name, change.kind, "\n".join(differs), _cost(change), change.action


def _cost(change: PlannedChange) -> str:
    if change.step not in ("start", "replay", "resume"):
        return "none"
    return f"events: {change.cost.events:,}\ndays: {change.cost.days:,}"


def _summary(due: list[PlannedChange]) -> str:
    if not due:
        return "[green]nothing to do[/]"
    return f"to do: {len(due)}; `braid apply` does it"
