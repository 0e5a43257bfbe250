"""`braid kappa …`: new versions of views, from history to service and back."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from braid.cli.options import ViewName, a_day
from braid.cli.output import Json, console, print_json, print_table
from braid.cli.serving.compare_tables import print_parities
from braid.cli.speed.plan import progress_bar
from braid.define.loading import load_definitions
from braid.deploy import store as deployment
from braid.deploy.versions import Deployment, Version
from braid.errors import BraidError, CheckFailed
from braid.runtime.settings import Settings, current_settings
from braid.runtime.signals import stop_on_signals

if TYPE_CHECKING:
    from speed_layer.promotion import PromotionCase

Number = Annotated[
    int | None, typer.Option("--version", help="A version by its number; the candidate when none is given.")
]

kappa = typer.Typer(
    no_args_is_help=True, help="Replay history through the streaming code into a new version."
)


@kappa.command()
def replay(
    name: ViewName,
    from_day: Annotated[
        str | None,
        typer.Option("--from", help="First day to replay, as in 2026-03-01; all when none is given."),
    ] = None,
    json: Json = False,
) -> None:
    """Start the same streaming code at the beginning of the log, into a new version beside the active one.

    It reads history, folds it, catches up with live ingest, and leaves a candidate that the running streams keep fresh.
    It may be killed at any moment: the same command resumes it.
    """
    from braid.runtime.spark import spark_session
    from speed_layer.stream.replay import replay as run

    settings = current_settings()
    view = load_definitions(settings.definitions).view(name)
    day = a_day(from_day) if from_day else None
    with stop_on_signals() as stop, progress_bar(quiet=json) as watch:
        version = run(
            spark_session(settings, "braid replay"), settings, view, from_day=day, watch=watch, stop=stop
        )
    if json:
        print_json(_version(version))
    else:
        console.print(f"v{version.number} of {name} is {version.phase}.")
        if version.phase == "candidate":
            console.print(f"`braid kappa compare {name}` judges it, `braid kappa promote {name}` serves it.")


@kappa.command()
def status(
    name: Annotated[
        str | None, typer.Argument(help="A view by name; all when none is given.", metavar="[VIEW]")
    ] = None,
    json: Json = False,
) -> None:
    """Show the versions of a view, or of all, and how they came to be."""
    settings = current_settings()
    known = [_deployed(settings, name)] if name else list(deployment.deployments(settings).values())
    if json:
        print_json([_document(deployed) for deployed in known])
        return
    for deployed in known:
        print_table(
            f"versions of {deployed.name}",
            ("version", "phase", "mode", "from", "created", "fingerprint"),
            [
                (
                    f"v{v.number}",
                    v.phase,
                    v.view.mode,
                    v.from_day or "the beginning",
                    f"{v.created:%F %T}",
                    v.fingerprint,
                )
                for v in deployed.versions
            ],
        )
        print_table(
            f"history of {deployed.name}",
            ("at", "what", "version", "because"),
            [(f"{c.at:%F %T}", c.what, f"v{c.version}", c.because) for c in deployed.history],
        )
    if not known:
        console.print("no view is deployed: `braid apply` or `braid stream` does it.")


@kappa.command()
def compare(name: ViewName, number: Number = None, json: Json = False) -> None:
    """Compare a version with the active one and with a batch recompute of the log, at the same cut.

    Exits with 1 if it differs.
    """
    case = _judge(name, number)
    if json:
        print_json(_case(case))
    else:
        print_parities(name, case.parities)
    if not case.holds:
        raise CheckFailed("; ".join(case.objections()))


@kappa.command()
def promote(
    name: ViewName,
    number: Number = None,
    accept: Annotated[
        str | None,
        typer.Option("--accept-differences", help="Promote in spite of differences; the reason is recorded."),
    ] = None,
    json: Json = False,
) -> None:
    """Serve the candidate from now on, if it proves equal; the version that was served stays beside it."""
    from speed_layer.promotion import promote as run

    if accept is not None and not accept.strip():
        raise BraidError('--accept-differences needs a reason, such as "bots are filtered now".')
    settings = current_settings()
    case = _judge(name, number)
    if not json:
        print_parities(name, case.parities)
    run(settings, name, case, datetime.now(UTC), accept)
    _say(json, settings, name, f"v{case.version} of {name} is served.")


@kappa.command()
def rollback(name: ViewName, json: Json = False) -> None:
    """Serve again what was served before, at once: that version was kept fresh."""
    from speed_layer.promotion import rollback as run

    settings = current_settings()
    now_served = run(settings, _deployed(settings, name).name, datetime.now(UTC)).active
    assert now_served is not None
    _say(json, settings, name, f"v{now_served.number} of {name} is served again.")


@kappa.command()
def retire(
    name: ViewName,
    number: Annotated[int, typer.Argument(help="The version's number.", metavar="VERSION")],
    json: Json = False,
) -> None:
    """Give a version up: its stream ends and its tables are deleted. The active version cannot be retired."""
    from speed_layer.promotion import retire as run

    settings = current_settings()
    run(settings, _deployed(settings, name).name, number, datetime.now(UTC))
    _say(json, settings, name, f"v{number} of {name} is retired, and its tables are deleted.")


def _judge(name: str, number: int | None) -> "PromotionCase":
    from braid.runtime.spark import spark_session
    from speed_layer.promotion import candidate_of, judge

    settings = current_settings()
    candidate_of(_deployed(settings, name), number)
    return judge(spark_session(settings, "braid compare"), settings, name, number)


def _deployed(settings: Settings, name: str) -> Deployment:
    """A view that was deployed; otherwise what is known of it is said."""
    found = deployment.load(settings, name)
    if not found.versions:
        load_definitions(settings.definitions).view(name)
        raise BraidError(f"view {name!r} is not deployed yet: `braid apply {name}` does it.")
    return found


def _case(case: "PromotionCase") -> dict[str, Any]:
    return asdict(case) | {"holds": case.holds, "objections": case.objections()}


def _say(json: bool, settings: Settings, name: str, text: str) -> None:
    if json:
        print_json(_document(deployment.load(settings, name)))
    else:
        console.print(text)


def _document(deployed: Deployment) -> dict[str, Any]:
    return {
        "view": deployed.name,
        "active": deployed.active.number if deployed.active else None,
        "versions": [_version(version) for version in deployed.versions],
        "history": [asdict(change) for change in deployed.history],
    }


def _version(version: Version) -> dict[str, Any]:
    return {
        "version": version.number, "phase": version.phase, "mode": version.view.mode, "created": version.created,
        "from_day": version.from_day, "fingerprint": version.fingerprint,
    }  # fmt: skip
