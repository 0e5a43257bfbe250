"""`braid alerts`: which alerts fire, which are over, and which were corrected."""

from typing import Annotated, Literal

import typer

from braid.cli.output import Json, print_json, print_table
from braid.define.loading import load_definitions
from braid.runtime.settings import current_settings

State = Literal["firing", "resolved", "withdrawn"]


def register(app: typer.Typer) -> None:
    app.command()(alerts)


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
    if name is not None:
        load_definitions(settings.definitions).alert(name)
    found = [entry for entry in listed(settings, name) if state is None or entry["state"] == state][:limit]
    if json:
        print_json(found)
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


def _pairs(values: dict[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
