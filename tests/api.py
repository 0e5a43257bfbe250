"""The API as a server of its own, on a free port of this machine, over tables that a test writes."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from braid.runtime.settings import Settings
from serving_layer.http.app import Limits, OtherLayers, create_app
from serving_layer.http.server import server_config
from serving_layer.memory.all_views import AllViews
from tests.conftest import free_port
from tests.waiting import until


@contextmanager
def serving(
    settings: Settings, around: OtherLayers | None = None, limits: Limits | None = None, **access: Any
) -> Iterator[str]:
    """The address of a server that lives as long as the block."""
    app = create_app(AllViews(settings, 1 << 28), around, limits, **access)
    port = free_port()
    config = server_config(app, limits or Limits())
    config.port = port
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def events_of(stream: httpx.Response) -> Iterator[tuple[str, Any]]:
    """(name, data) of server-sent events, as they come."""
    name = ""
    for line in stream.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))
