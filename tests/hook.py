"""A receiver of alerts: a real HTTP server that takes what it is sent, or answers 500 while it is broken."""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from unittest.mock import patch


class Hook(BaseHTTPRequestHandler):
    """What it got, and when."""

    got: list[tuple[str, Any]]
    at: list[float]
    is_broken: bool

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not type(self).is_broken:
            type(self).at.append(time.monotonic())
            type(self).got.append((self.path, body))
        self.send_response(500 if type(self).is_broken else 200)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def a_hook() -> Iterator[type[Hook]]:
    """Its addresses are those of the receivers "ops", "manager" and "chat"."""
    kind = type("OneHook", (Hook,), {"got": [], "at": [], "is_broken": False})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"://127.0.0.1:{server.server_port}"
    names = {"ops": "http", "manager": "http", "chat": "json"}
    try:
        with patch.dict(
            os.environ, {f"BRAID_URL_{n.upper()}": f"{scheme}{address}/{n}" for n, scheme in names.items()}
        ):
            yield kind
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
