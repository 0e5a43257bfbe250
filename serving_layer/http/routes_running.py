"""The routes of what moves and what runs: server-sent events, days, ledger, accuracy, health and metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from serving_layer.http import events
from serving_layer.http.metrics import Meter
from serving_layer.http.parameters import asked
from serving_layer.http.problems import Refused, documented
from serving_layer.memory.all_views import Hub


@dataclass(frozen=True)
class Around:
    """What others know and the API tells: each is asked for a name, and answers plain data."""

    days: Callable[[str], list[dict[str, Any]]] = lambda _: []
    ledger: Callable[[str], dict[str, Any]] | None = None
    accuracy: Callable[[str], dict[str, Any]] = lambda name: {"view": name, "days": [], "completeness": []}
    status: Callable[[], dict[str, Any]] = lambda: {"healthy": True, "problems": [], "processes": []}
    metrics: Callable[[], str] = lambda: ""
    data_docs: Path | None = None


def add_watching(app: FastAPI, hub: Hub, around: Around) -> None:
    @app.get(
        "/views/{view}/live", tags=["live"], responses=documented(400, 404, 503), response_class=Response
    )
    async def live(
        view: str,
        http: Request,
        mode: Annotated[
            Literal["updates", "final"], Query(description="What changes, or becomes final.")
        ] = "updates",
        where: Annotated[list[str] | None, Query(description="KEY=VALUE.")] = None,
    ) -> Response:
        """Server-sent events: `hello`, then `update` (or `final`) with the rows that moved; `reset`: read anew."""
        request = asked(hub.held(view).view, {"where": where}, http, ["mode"])
        return events.event_stream(events.moves(hub, view, request, mode))

    @app.get("/live", tags=["live"], response_class=Response)
    async def live_everything() -> Response:
        """Server-sent events: `views` when one of them has moved, `status` of the processes every two seconds."""
        return events.event_stream(events.everything(hub, around.status))


def add_running(app: FastAPI, hub: Hub, around: Around, meter: Meter) -> None:
    def known_view(name: str) -> str:
        if name not in hub.names:
            hub.held(name)
        return name

    @app.get("/days/{view}", tags=["layers"], responses=documented(404))
    def days(view: str) -> dict[str, Any]:
        """Day by day: state, events, rows, cut, gate, and how right the served number was before the publish."""
        return {"view": known_view(view), "days": around.days(view)}

    @app.get("/ledger/{source}", tags=["layers"], responses=documented(400, 404))
    def ledger(source: str) -> dict[str, Any]:
        """What was consumed, and what became of it."""
        if source not in hub.definitions.sources or around.ledger is None:
            known = ", ".join(hub.definitions.sources)
            raise Refused(404, f"there is no source {source!r}: the sources are {known}.", "source")
        return around.ledger(source)

    @app.get("/accuracy/{view}", tags=["layers"], responses=documented(404))
    def accuracy(view: str) -> dict[str, Any]:
        """How right what was served turned out to be, by day, and how complete how soon."""
        return around.accuracy(known_view(view))

    @app.get("/status", tags=["running"])
    def status() -> dict[str, Any]:
        """What runs and how it does."""
        return around.status()

    @app.get("/health", tags=["running"])
    async def health() -> dict[str, Any]:
        """Whether the server lives."""
        return {"alive": True}

    @app.get("/ready", tags=["running"], responses=documented(503))
    async def ready() -> Response:
        """Whether every view can be answered, 503 otherwise: /versions has the reasons."""
        return JSONResponse({"ready": not hub.problems}, 503 if hub.problems else 200)

    @app.get("/versions", tags=["running"])
    async def versions() -> dict[str, Any]:
        """Where each view stands: its version, those of its tables, the newest epoch; and which cannot be followed."""
        return {"views": hub.versions(), "problems": dict(hub.problems)}

    @app.get("/metrics", tags=["running"], response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """Prometheus' text: the processes' metrics, and those of this server."""
        return PlainTextResponse(around.metrics() + meter.text(hub), media_type=meter.CONTENT_TYPE)
