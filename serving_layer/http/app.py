"""Puts the web application together: its pages, errors and access, the routes of views, and those about what runs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio
from fastapi import FastAPI, Response
from fastapi import Request as HttpRequest
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles

from braid.define.codec import braid_version
from braid.runtime.status import ProcessStatus
from serving_layer.http import problems
from serving_layer.http.access import Access, is_loopback, require_token
from serving_layer.http.limits import Answering, Limits, OpenStreams
from serving_layer.http.metrics import ServerMetrics
from serving_layer.http.problems import Refused, documented, problem
from serving_layer.http.routes_live import add_live
from serving_layer.http.routes_views import add_views
from serving_layer.memory.all_views import AllViews

__all__ = ["Limits", "OtherLayers", "create_app"]
PAGE = Path(__file__).parents[1] / "page"
OTHERS_SECONDS = 60.0
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class OtherLayers:
    """What the other layers know and the API tells: each is asked for a name, and answers plain data."""

    days: Callable[[str], list[dict[str, Any]]] = lambda _: []
    ledger: Callable[[str], dict[str, Any]] | None = None
    accuracy: Callable[[str], dict[str, Any]] = lambda name: {"view": name, "days": [], "completeness": []}
    status: Callable[[], dict[str, Any]] = lambda: {"healthy": True, "problems": [], "processes": []}
    processes: Callable[[], Sequence[ProcessStatus]] = lambda: []
    data_docs: Path | None = None


def add_running(
    app: FastAPI, views: AllViews, others: OtherLayers, answering: Answering, metrics: ServerMetrics
) -> None:
    def known_view(name: str) -> str:
        if name not in views.names:
            views.now(name)
        return name

    @app.get("/days/{view}", tags=["layers"], responses=documented(404, 503))
    async def days(view: str) -> dict[str, Any]:
        """Day by day: state, events, rows, cut, gate, and how right the served number was before the publish."""
        name = known_view(view)
        return {"view": name, "days": await answering.run("/days/{view}", partial(others.days, name))}

    @app.get("/ledger/{source}", tags=["layers"], responses=documented(400, 404, 503))
    async def ledger(source: str) -> dict[str, Any]:
        """What was consumed, and what became of it."""
        if source not in views.definitions.sources or others.ledger is None:
            known = ", ".join(views.definitions.sources)
            raise Refused(404, f"there is no source {source!r}: the sources are {known}.", "source")
        return await answering.run("/ledger/{source}", partial(others.ledger, source))

    @app.get("/accuracy/{view}", tags=["layers"], responses=documented(404, 503))
    async def accuracy(view: str) -> dict[str, Any]:
        """How right what was served turned out to be, by day, and how complete how soon."""
        return await answering.run("/accuracy/{view}", partial(others.accuracy, known_view(view)))

    @app.get("/status", tags=["running"], responses=documented(503))
    async def status() -> dict[str, Any]:
        """What runs and how it does."""
        return await answering.run("/status", others.status)

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


def create_app(
    views: AllViews,
    others: OtherLayers | None = None,
    limits: Limits | None = None,
    *,
    host: str = "127.0.0.1",
    token: str = "",
) -> FastAPI:
    """The application. The views are started and stopped with it."""
    require_token(host, token)
    others = others or OtherLayers()
    metrics = ServerMetrics(views, others.processes)
    limits = limits or Limits()
    answering = Answering(limits, metrics)
    # What the other layers know may take longer, and does not take the place of questions.
    asking_others = Answering(replace(limits, seconds=OTHERS_SECONDS, at_once=2), metrics)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> Any:
        await anyio.to_thread.run_sync(views.start)
        yield
        await anyio.to_thread.run_sync(views.stop)
        answering.close()
        asking_others.close()

    app = FastAPI(
        title="Braid",
        version=braid_version(),
        description="One exact number per question: the batch layer's base and the stream's tail, merged at their cut.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    problems.install(app)
    add_views(app, views, answering)
    add_live(app, views, OpenStreams(limits), others.status)
    add_running(app, views, others, asking_others, metrics)
    _add_pages(app, others.data_docs)
    names = LOOPBACK_NAMES if is_loopback(host) else None
    app.add_middleware(Access, token=token, names=names)
    return app


def _add_pages(app: FastAPI, data_docs: Path | None) -> None:
    swagger = Path(str(files("fastapi_swagger") / "resources"))
    assets: Mapping[str, Path] = {
        "plotly.min.js": Path(str(files("plotly") / "package_data" / "plotly.min.js")),
        "swagger-ui-bundle.js": swagger / "swagger-ui-bundle.js",
        "swagger-ui.css": swagger / "swagger-ui.css",
    }

    @app.get("/", include_in_schema=False)
    async def dashboard() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse((PAGE / "docs.html").read_text())

    for name, path in assets.items():
        app.add_route(f"/assets/{name}", partial(_packaged, path), include_in_schema=False)
    app.mount("/assets", StaticFiles(directory=PAGE), name="assets")
    if data_docs is not None:
        app.mount("/data-docs", DataDocs(directory=data_docs, html=True, check_dir=False), name="data-docs")


class DataDocs(StaticFiles):
    """The pages of quality gates, which are there after the first audit."""

    async def check_config(self) -> None:
        if not Path(str(self.directory)).is_dir():
            raise Refused(404, "no day has been audited yet: `braid batch run` writes these pages.")


async def _packaged(path: Path, _: HttpRequest) -> FileResponse:
    """A script that a pinned package ships: it changes only with the package."""
    return FileResponse(path, headers={"Cache-Control": "max-age=3600"})
