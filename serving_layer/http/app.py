"""The API: views, their numbers and where those come from, over HTTP and without Spark."""

from contextlib import asynccontextmanager
from typing import Any

import anyio
from fastapi import FastAPI

from braid.define.codec import braid_version
from serving_layer.http import problems
from serving_layer.http.access import Access, is_loopback, require_token_beyond_loopback
from serving_layer.http.answering import Answering, Limits
from serving_layer.http.metrics import Meter
from serving_layer.http.pages import add_pages
from serving_layer.http.routes_running import Around, add_running, add_watching
from serving_layer.http.routes_views import add_views
from serving_layer.memory.all_views import Hub

__all__ = ["Around", "Limits", "create_app"]

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


def create_app(
    hub: Hub,
    around: Around | None = None,
    limits: Limits | None = None,
    *,
    host: str = "127.0.0.1",
    token: str = "",
) -> FastAPI:
    """The application. The hub is started and stopped with it."""
    require_token_beyond_loopback(host, token)
    around = around or Around()
    meter = Meter()
    answering = Answering(hub, limits or Limits(), meter)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> Any:
        await anyio.to_thread.run_sync(hub.start)
        yield
        await anyio.to_thread.run_sync(hub.stop)

    app = FastAPI(
        title="Braid",
        version=braid_version(),
        description="One exact number per question: the batch layer's base and the stream's tail, merged at their cut.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    problems.install(app)
    add_views(app, answering)
    add_watching(app, hub, around)
    add_running(app, hub, around, meter)
    add_pages(app, around.data_docs)
    names = LOOPBACK_NAMES if is_loopback(host) else None
    app.add_middleware(Access, token=token, names=names)
    return app
