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
from braid.runtime.settings import Settings
from braid.runtime.status import FRESH, ProcessStatus, report

Documents = Callable[[], Sequence[ProcessStatus]]


@contextmanager
def health_server(settings: Settings, documents: Documents) -> Iterator[None]:
    """Answers /health (200 or 503, with the reasons), /alive and /metrics for as long as the block runs."""
    host, port = settings.health_host, settings.health_port
    try:
        server = ThreadingHTTPServer((host, port), _handler(documents))
    except OSError as error:
        raise BraidError(
            f"port {port} on {host} cannot be used for /health and /metrics ({error.strerror}): stop the process that "
            "has it, or choose another port with BRAID_HEALTH_PORT, or another address with BRAID_HEALTH_HOST."
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
                case "/alive":
                    # For who starts anew what hangs: a topic that is not there yet is no reason for it.
                    newest = max((known.updated for known in documents()), default=None)
                    lives = newest is not None and datetime.now(UTC) - newest <= FRESH
                    code = HTTPStatus.OK if lives else HTTPStatus.SERVICE_UNAVAILABLE
                    said = "alive" if lives else f"no report for {FRESH.total_seconds():.0f} s"
                    self._answer(code, "text/plain; charset=utf-8", f"{said}\n")
                case "/metrics":
                    self._answer(HTTPStatus.OK, CONTENT_TYPE, prometheus(documents()))
                case _:
                    self._answer(
                        HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", "/health, /alive or /metrics\n"
                    )

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
