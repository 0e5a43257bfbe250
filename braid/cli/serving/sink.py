"""`braid sink` and `braid alerts`: numbers on their way to other systems, and what was said of them on the way."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from braid.cli.health import Health, seen
from braid.cli.options import ViewNames
from braid.cli.output import Json, console, print_json, print_table
from braid.define.loading import load_definitions
from braid.define.names import suggest
from braid.define.view import View
from braid.errors import BraidError
from braid.runtime.settings import Settings, bytes_of, current_settings
from braid.runtime.signals import stop_on_signals
from braid.runtime.status import SINKS, ProcessStatus, is_alive, read_all

if TYPE_CHECKING:
    from serving_layer.sinks.controls import Controls

sink = typer.Typer(
    no_args_is_help=True, help="Numbers that leave: a view's sinks in PostgreSQL, Kafka and files."
)

Name = Annotated[str, typer.Argument(help="The view's name.", metavar="VIEW")]
Only = Annotated[
    str | None, typer.Option("--sink", help="Of this sink alone, by the name that `braid sink status` shows.")
]

State = Literal["firing", "resolved", "withdrawn"]


@sink.command()
def run(names: ViewNames = None, health: Health = False) -> None:
    """Deliver the views' merged numbers to their sinks and judge their alerts, until Ctrl-C or SIGTERM.

    `braid up` does it by itself. A sink that fails is tried again and stops no other one. It may be killed at any
    moment and started again.

    Example: `braid sink run page_traffic`
    """
    from serving_layer.sinks.run import run as deliver

    settings = current_settings()
    definitions = load_definitions(settings.definitions)
    views = [definitions.view(name) for name in names] if names else list(definitions.views.values())
    alerts = [alert for alert in definitions.alerts.values() if not names or alert.view.name in names]
    with stop_on_signals() as stop, seen(settings, health):
        deliver(settings, views, alerts, stop, bytes_of(settings.serve_memory) // 4)


@sink.command()
def status(
    name: Annotated[
        str | None, typer.Argument(help="A view by name; all when none is given.", metavar="[VIEW]")
    ] = None,
    json: Json = False,
) -> None:
    """Show the sinks of a view, or of all: state, revision, what waits and for how long, and why.

    Example: `braid sink status page_traffic`
    """
    views = (
        [_with_sinks(name)] if name else list(load_definitions(current_settings().definitions).views.values())
    )
    rows = [row for view in views for row in _rows(view)]
    if json:
        print_json(rows)
        return
    if not rows:
        console.print("no view has sinks: add one, such as sinks=(postgres('db', table='hits'),).")
        return
    columns = ("view", "sink", "emit", "state", "revision", "delivered", "waiting", "lag_seconds", "error")
    print_table("sinks", columns, ([row[column] for column in columns] for row in rows))


@sink.command()
def pause(name: Name, sink: Only = None, json: Json = False) -> None:
    """Deliver nothing to a view's sinks until `braid sink resume`: kept over restarts, seen in the status."""
    from serving_layer.sinks import controls

    view = _with_sinks(name)
    _say(view, controls.pause(current_settings(), name, _chosen(view, sink)), json)


@sink.command()
def resume(name: Name, sink: Only = None, json: Json = False) -> None:
    """Go on with sinks that were paused: they get the difference between what they hold and what is served."""
    from serving_layer.sinks import controls

    view = _with_sinks(name)
    _say(view, controls.resume(current_settings(), name, _chosen(view, sink)), json)


@sink.command()
def replay(name: Name, sink: Only = None, json: Json = False) -> None:
    """Deliver everything again, under a new revision: for a sink that somebody else has changed."""
    from serving_layer.sinks import controls

    view = _with_sinks(name)
    _say(view, controls.ask_replay(current_settings(), name, _chosen(view, sink)), json)


def _with_sinks(name: str) -> View:
    view = load_definitions(current_settings().definitions).view(name)
    if not view.sinks:
        raise BraidError(f"view {name!r} has no sinks: add one, such as sinks=(kafka_topic({name!r}),).")
    return view


def _chosen(view: View, sink: str | None) -> list[str]:
    names = [each.name for each in view.sinks]
    if sink is not None and sink not in names:
        raise BraidError(f"view {view.name!r} has no sink {sink!r}. {suggest(sink, names, 'sinks')}")
    return names if sink is None else [sink]


def _rows(view: View) -> list[dict[str, Any]]:
    """What the process of the sinks said last, and what a person has said since."""
    from serving_layer.sinks.controls import read_controls

    settings = current_settings()
    said = read_controls(settings, view.name)
    queries = {query.name: query for process in _processes(settings) for query in process.queries}
    rows = []
    for sink in view.sinks:
        query = queries.get(f"sink {view.name} {sink.name}")
        state = "not running" if query is None else query.state
        state = "paused" if sink.name in said.paused else state
        rows.append(
            {
                "view": view.name,
                "sink": sink.name,
                "emit": sink.emit,
                "state": f"{state}, replay asked for" if sink.name in said.replay else state,
                "revision": query and query.batch,
                "delivered": query and query.events,
                "waiting": query and query.lag_events,
                "lag_seconds": query and query.lag_seconds and round(query.lag_seconds, 1),
                "error": query and query.error,
            }
        )
    return rows


def _processes(settings: Settings) -> list[ProcessStatus]:
    """Those that feed sinks and judge alerts now."""
    return [process for process in read_all(settings) if process.process == SINKS and is_alive(process)]


def _say(view: View, said: "Controls", json: bool) -> None:
    if json:
        print_json({"view": view.name, "paused": list(said.paused), "replay": list(said.replay)})
        return
    for sink in view.sinks:
        words = ["paused" if sink.name in said.paused else "delivers"]
        words += ["everything again, when it is its turn"] if sink.name in said.replay else []
        console.print(f"{sink.name}: {' '.join(words)}", highlight=False, markup=False, soft_wrap=True)


def alerts(
    name: Annotated[str | None, typer.Argument(help="Of this alert alone.", metavar="ALERT")] = None,
    state: Annotated[
        State | None, typer.Option(help="Only those that fire, are over, or should not have fired.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest first.")] = 40,
    json: Json = False,
) -> None:
    """List what alerts have said: keys, window, numbers, since when, and whether it was corrected.

    `braid sink run`, or `braid up`, judges them. Example: `braid alerts --state firing`
    """
    from serving_layer.alerts.journal import listed

    settings = current_settings()
    definitions = load_definitions(settings.definitions)
    if name is not None:
        definitions.alert(name)
    found = [entry for entry in listed(settings, name) if state is None or entry["state"] == state][:limit]
    if json:
        print_json(found)
        return
    if not found:
        console.print(_why_none(settings, bool(definitions.alerts)))
        return
    columns = ("alert", "severity", "state", "keys", "window", "numbers", "fired", "why")
    rows = (
        (
            entry["alert"],
            entry["severity"],
            entry["state"],
            _pairs(entry["keys"]),
            entry["window_start"],
            _pairs(entry["numbers"]),
            entry["fired"][:19],
            "corrected: " * entry["corrected"] + entry["reason"],
        )
        for entry in found
    )
    print_table("alerts", columns, rows)


def _why_none(settings: Settings, is_any_defined: bool) -> str:
    if not is_any_defined:
        return "there are no alerts: add an Alert(...) to the definitions."
    if not _processes(settings):
        return "nothing to list, and nobody judges alerts now: `braid sink run`, or `braid up`, does."
    return "nothing to list: no alert has said that."


def _pairs(values: dict[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
