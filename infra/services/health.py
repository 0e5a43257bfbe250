"""Health and metrics over HTTP, for probes and for Prometheus."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from braid.errors import BraidError
from braid.runtime.metrics import CONTENT_TYPE, prometheus
from braid.runtime.status import ProcessStatus, report

HOST = "127.0.0.1"
Documents = Callable[[], Sequence[ProcessStatus]]


@contextmanager
def health_server(port: int, documents: Documents) -> Iterator[None]:
    """Answers /health (200 or 503, with the reasons) and /metrics for as long as the block runs."""
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(documents))
    except OSError as error:
        raise BraidError(
            f"port {port} on {HOST} cannot be used for /health and /metrics ({error.strerror}): stop the process that "
            "has it, or choose another port with BRAID_HEALTH_PORT."
        ) from None
    threading.Thread(target=server.serve_forever, args=(0.1,), name="health", daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _handler(documents: Documents) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # A client that connects and says nothing must not keep its thread for ever.
        timeout = 5

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/health":
                    found = report(documents(), datetime.now(UTC))
                    code = HTTPStatus.OK if found["healthy"] else HTTPStatus.SERVICE_UNAVAILABLE
                    self._answer(code, "application/json", json.dumps(found, indent=2) + "\n")
                case "/metrics":
                    self._answer(HTTPStatus.OK, CONTENT_TYPE, prometheus(documents()))
                case _:
                    self._answer(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", "/health or /metrics\n")

        def _answer(self, code: HTTPStatus, content_type: str, text: str) -> None:
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """A probe every few seconds is not news."""

    return Handler
