"""Puts the web application together: the API's routes, the dashboard's pages, errors and access."""

from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio
from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles

from braid.define.codec import braid_version
from serving_layer.http import problems
from serving_layer.http.access import Access, is_loopback, require_token
from serving_layer.http.limits import Answering, Limits, OpenStreams
from serving_layer.http.metrics import ServerMetrics
from serving_layer.http.routes_live import add_live
from serving_layer.http.routes_running import OtherLayers, add_running
from serving_layer.http.routes_views import add_views
from serving_layer.http.turns import Turns
from serving_layer.memory.all_views import AllViews

__all__ = ["Limits", "OtherLayers", "create_app"]

PAGE = Path(__file__).parents[1] / "page"
OTHERS_SECONDS = 60.0
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


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
    metrics = ServerMetrics(views, others.processes, others.days, others.ledger)
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
    _add_pages(app)
    names = LOOPBACK_NAMES if is_loopback(host) else None
    app.add_middleware(Access, token=token, names=names)
    app.add_middleware(Turns, limits=limits)
    return app


def _add_pages(app: FastAPI) -> None:
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


async def _packaged(path: Path, _: HttpRequest) -> FileResponse:
    """A script that a pinned package ships: it changes only with the package."""
    return FileResponse(path, headers={"Cache-Control": "max-age=3600"})
