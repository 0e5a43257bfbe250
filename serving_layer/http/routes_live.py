"""The routes of server-sent events: what moves in a view, and where all views and processes stand."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Query
from fastapi import Request as HttpRequest
from fastapi.sse import EventSourceResponse, ServerSentEvent

from serving_layer.answer.request import Request, naming
from serving_layer.http.limits import OpenStreams
from serving_layer.http.parameters import asked
from serving_layer.http.problems import documented
from serving_layer.memory.all_views import AllViews
from serving_layer.memory.changes import Move, final, matching, updates

VIEWS_EVERY, STATUS_EVERY = 0.25, 2.0
# How soon a stream that has nothing to tell notices that the server stops.
NOTICES_WITHIN = 1.0

Mode = Literal["updates", "final"]
Events = AsyncIterator[ServerSentEvent]


def add_live(
    app: FastAPI, views: AllViews, streams: OpenStreams, status: Callable[[], dict[str, Any]]
) -> None:
    # Counted until the stream has ended, however it ends: a dependency is left when the answer is.
    async def a_stream(http: HttpRequest) -> AsyncIterator[None]:
        with streams.one_more(http.client.host if http.client else ""):
            yield

    # Asked before the stream begins: what cannot be watched is answered by a problem and not by a broken stream.
    def watched(
        view: str,
        http: HttpRequest,
        where: Annotated[list[str] | None, Query(description="KEY=VALUE.")] = None,
    ) -> Request:
        now = views.now(view)
        request = asked(now.view, {"where": where}, http, ["mode"])
        with naming("where"):
            matching(now, request.where)
        return request

    @app.get(
        "/views/{view}/live",
        tags=["live"],
        responses=documented(400, 404, 429, 503),
        response_class=EventSourceResponse,
        dependencies=[Depends(a_stream)],
    )
    async def live(
        view: str,
        request: Annotated[Request, Depends(watched)],
        mode: Annotated[Mode, Query(description="What changes, or becomes final.")] = "updates",
    ) -> Events:
        """Server-sent events: `hello`, then `update` (or `final`) with the rows that moved; `reset`: read anew."""
        async for event in _moves(views, view, request, mode):
            yield event

    @app.get(
        "/live",
        tags=["live"],
        responses=documented(429, 503),
        response_class=EventSourceResponse,
        dependencies=[Depends(a_stream)],
    )
    async def live_everything() -> Events:
        """Server-sent events: `views` when one of them has moved, `status` of the processes every two seconds."""
        async for event in _everything(views, status):
            yield event


async def _moves(views: AllViews, name: str, request: Request, mode: Mode) -> Events:
    """The rows of a view that change, or become final, from now on."""
    chosen, word = (updates, "update") if mode == "updates" else (final, "final")
    now, watcher = await asyncio.to_thread(views.watch, name, asyncio.get_running_loop())
    try:
        yield _event("hello", {"version": now.version.number, "epoch": _epoch(now.mark)})
        while not views.is_stopping:
            try:
                move = await asyncio.wait_for(watcher.queue.get(), NOTICES_WITHIN)
            except TimeoutError:
                continue
            if move is None:
                yield _event("reset", {"why": "more came than could be sent: read anew"})
                continue
            fits = matching(move.now, request.where)
            if rows := [row for row in chosen(move) if fits(row)]:
                yield _event(word, _told(move, rows))
    finally:
        watcher.has_left = True


async def _everything(views: AllViews, status: Callable[[], dict[str, Any]]) -> Events:
    """Where the views stand whenever one has moved, and how the processes do every two seconds."""
    loop = asyncio.get_running_loop()
    told: dict[str, Any] | None = None
    due = loop.time()
    while not views.is_stopping:
        versions = views.versions()
        if versions != told:
            told = versions
            yield _event("views", versions)
        if loop.time() >= due:
            due = loop.time() + STATUS_EVERY
            yield _event("status", await asyncio.to_thread(status))
        await asyncio.sleep(VIEWS_EVERY)


def _told(move: Move, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"version": move.now.version.number, "epoch": _epoch(move.now.mark), "rows": rows}


def _epoch(mark: Any) -> str | None:
    return mark.epoch.isoformat() if mark is not None and mark.epoch is not None else None


def _event(name: str, data: Any) -> ServerSentEvent:
    return ServerSentEvent(event=name, raw_data=json.dumps(data))
