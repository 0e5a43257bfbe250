"""What there is to ask for: the views, with their keys, measures and windows."""

from datetime import timedelta
from typing import Any

from braid.define.view import View
from braid.define.windows import Fixed, Session
from serving_layer.memory.all_views import Hub, NotDeployed


def catalog(hub: Hub) -> dict[str, Any]:
    return {"views": [_entry(hub, name) for name in hub.names]}


def _entry(hub: Hub, name: str) -> dict[str, Any]:
    try:
        held = hub.held(name)
    except NotDeployed:
        return _view(hub.definitions.view(name)) | {"version": None, "first_day": None, "last_day": None}
    days = [*held.files, *held.tail_days()]
    return _view(held.view) | {
        "version": held.version.number,
        "first_day": str(min(days)) if days else None,
        "last_day": str(max(days)) if days else None,
    }


def _view(view: View) -> dict[str, Any]:
    window = view.window
    return {
        "name": view.name,
        "source": view.source.name,
        "timezone": view.source.timezone,
        "mode": view.mode,
        "lateness": view.lateness,
        "keys": list(view.keys),
        "measures": [
            {"name": name, "kind": measure.kind, "bound": measure.bound()}
            for name, measure in view.measures.items()
        ],
        "window": {
            "kind": window.kind,
            "describe": window.describe(),
            "size_seconds": _seconds(window.size) if isinstance(window, Fixed) else None,
            "every_seconds": _seconds(window.every) if isinstance(window, Fixed) else None,
            "gap_seconds": _seconds(window.gap) if isinstance(window, Session) else None,
        },
    }


def _seconds(length: timedelta) -> float:
    return length.total_seconds()
