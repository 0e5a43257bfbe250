"""The routes about what runs: days, ledger, accuracy, status, health, versions and metrics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from braid.runtime.status import ProcessStatus
from serving_layer.alerts.journal import listed
from serving_layer.http.limits import Answering
from serving_layer.http.metrics import ServerMetrics
from serving_layer.http.problems import Refused, documented, problem
from serving_layer.memory.all_views import AllViews

Plain = dict[str, Any]
AlertState = Literal["firing", "resolved", "withdrawn"]


@dataclass(frozen=True)
class OtherLayers:
    """What the other layers know and the API tells: each is asked for a name, and answers plain data."""

    days: Callable[[str], list[dict[str, Any]]] = lambda _: []
    ledger: Callable[[str], dict[str, Any]] | None = None
    accuracy: Callable[[str], dict[str, Any]] = lambda name: {"view": name, "days": [], "completeness": []}
    status: Callable[[], dict[str, Any]] = lambda: {"healthy": True, "problems": [], "processes": []}
    processes: Callable[[], Sequence[ProcessStatus]] = lambda: []
    data_docs: Callable[[str], str | None] = lambda path: None


def add_running(
    app: FastAPI, views: AllViews, others: OtherLayers, answering: Answering, metrics: ServerMetrics
) -> None:
    def known_view(name: str) -> str:
        if name not in views.names:
            views.now(name)
        return name

    async def plain(route: str, work: Callable[[], Plain]) -> Response:
        """What is asked, made into text where it was found: the event loop has no time for that."""
        answer: Response = await answering.run(route, lambda: JSONResponse(work()))
        return answer

    @app.get("/days/{view}", tags=["layers"], response_model=Plain, responses=documented(404, 503))
    async def days(view: str) -> Response:
        """Day by day: state, events, rows, cut, gate, and how right the served number was before the publish."""
        name = known_view(view)
        return await plain("/days/{view}", lambda: {"view": name, "days": others.days(name)})

    @app.get("/ledger/{source}", tags=["layers"], response_model=Plain, responses=documented(400, 404, 503))
    async def ledger(source: str) -> Response:
        """What was consumed, and what became of it."""
        if source not in views.definitions.sources or others.ledger is None:
            known = ", ".join(views.definitions.sources)
            raise Refused(404, f"there is no source {source!r}: the sources are {known}.", "source")
        return await plain("/ledger/{source}", partial(others.ledger, source))

    @app.get("/accuracy/{view}", tags=["layers"], response_model=Plain, responses=documented(404, 503))
    async def accuracy(view: str) -> Response:
        """How right what was served turned out to be, by day, and how complete how soon."""
        return await plain("/accuracy/{view}", partial(others.accuracy, known_view(view)))

    @app.api_route("/data-docs/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
    async def data_docs(path: str) -> Response:
        """The pages of quality gates, each made when it is opened."""
        text = await answering.run("/data-docs", partial(others.data_docs, path))
        if text is None:
            raise Refused(
                404, "no such day has been audited: `braid batch run` audits days, `/data-docs/` lists them."
            )
        return Response(text, media_type="application/json" if path.endswith(".json") else "text/html")

    @app.get("/alerts", tags=["layers"], response_model=Plain, responses=documented(400, 404, 503))
    async def alerts(
        view: Annotated[str | None, Query(description="Of this view alone.")] = None,
        state: Annotated[AlertState | None, Query(description="Only those in this state.")] = None,
        limit: Annotated[int, Query(ge=1, le=10_000, description="At most so many.")] = 100,
    ) -> Response:
        """What alerts have said of which keys and windows, the newest first, with the numbers behind it."""
        name = None if view is None else known_view(view)

        def work() -> Plain:
            found = listed(views.settings, None, name)
            return {"alerts": [entry for entry in found if state is None or entry["state"] == state][:limit]}

        return await plain("/alerts", work)

    @app.get("/status", tags=["running"], response_model=Plain, responses=documented(503))
    async def status() -> Response:
        """What runs and how it does."""
        return await plain("/status", others.status)

    @app.get("/health", tags=["running"], responses=documented(503))
    async def health() -> Response:
        """Whether the server lives and its numbers move; 503 when only a restart helps."""
        why = views.standstill()
        return JSONResponse({"alive": True}) if why is None else problem(503, why)

    @app.get("/ready", tags=["running"], responses=documented(503))
    async def ready() -> Response:
        """Whether every view can be answered, 503 otherwise: /versions has the reasons."""
        if (why := views.standstill()) is not None:
            return problem(503, why)
        return JSONResponse({"ready": not views.problems}, 503 if views.problems else 200)

    @app.get("/versions", tags=["running"])
    async def versions() -> dict[str, Any]:
        """Where each view stands: its version, those of its tables, the newest epoch; and which cannot be followed."""
        return {"views": views.versions(), "problems": dict(views.problems)}

    @app.get("/metrics", tags=["running"], response_class=PlainTextResponse)
    def prometheus() -> PlainTextResponse:
        """Prometheus' text: the processes' metrics, and those of this server."""
        return PlainTextResponse(metrics.text(), media_type=metrics.CONTENT_TYPE)
