"""Server-sent events: what moved in a view, and for the dashboard where all views and processes stand."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi.responses import StreamingResponse

from serving_layer.answer import changes
from serving_layer.answer.request import Request
from serving_layer.http.parameters import matches
from serving_layer.memory.all_views import Hub
from serving_layer.memory.follower import Move

VIEWS_EVERY, STATUS_EVERY = 0.25, 2.0


def event_stream(events: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def moves(hub: Hub, name: str, request: Request, mode: str) -> AsyncIterator[str]:
    """The rows of a view that change, or become final, from now on."""
    chosen = {"updates": changes.updates, "final": changes.final}[mode]
    word = "update" if mode == "updates" else "final"
    held, watcher = await asyncio.to_thread(hub.watch, name, asyncio.get_running_loop())
    try:
        yield _event("hello", {"version": held.version.number, "epoch": _epoch(held.mark)})
        while not hub.is_stopping:
            try:
                move = await asyncio.wait_for(watcher.queue.get(), 1.0)
            except TimeoutError:
                yield ": \n\n"
                continue
            if move is None:
                yield _event("reset", {"why": "more came than could be sent: read anew"})
            elif rows := [row for row in chosen(move) if matches(request, row)]:
                yield _event(word, _told(move, rows))
    finally:
        hub.unwatch(name, watcher)


async def everything(hub: Hub, status: Callable[[], dict[str, Any]]) -> AsyncIterator[str]:
    """Where the views stand whenever one has moved, and how the processes do every two seconds."""
    loop = asyncio.get_running_loop()
    told: dict[str, Any] | None = None
    due = loop.time()
    while not hub.is_stopping:
        versions = hub.versions()
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


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
