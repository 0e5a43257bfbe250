"""Keeps processes running, started in order, restarted and stopped, and tells probes over HTTP how they do."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from braid.errors import BraidError
from braid.runtime.metrics import CONTENT_TYPE, prometheus
from braid.runtime.status import ChildStatus, ProcessStatus, report
from infra.services.children import Running, Say, Startable

FIRST_DELAY = 1.0
LONGEST_DELAY = 60.0
STEADY_AFTER = 60.0
GRACE = 60.0
ROUND = 0.2

Clock = Callable[[], float]
OnRound = Callable[[tuple[ChildStatus, ...]], None]
HOST = "127.0.0.1"
Documents = Callable[[], Sequence[ProcessStatus]]


def next_delay(previous: float | None, ran_for: float) -> float:
    """How long to wait before the next start: twice as long each time, until it ran steadily once."""
    if previous is None or ran_for >= STEADY_AFTER:
        return FIRST_DELAY
    return min(2 * previous, LONGEST_DELAY)


def supervise(
    children: Sequence[Startable],
    *,
    stop: threading.Event,
    say: Say,
    on_round: OnRound = lambda statuses: None,
    clock: Clock = time.monotonic,
    grace: float = GRACE,
) -> None:
    """Looks after the children until `stop` is set; returns when all have ended.

    A child is started for the first time when the one before it is ready. The thread that calls this must be the
    one that outlives them: the kernel ends the children when the thread that started them is gone.
    """
    charges = [_Charge(child, say, clock) for child in children]

    def tell() -> None:
        on_round(tuple(charge.status for charge in charges))

    with ExitStack() as ending:
        for charge in charges:
            ending.callback(tell)
            ending.callback(charge.stop, grace)
        while not stop.is_set():
            for charge in charges:
                charge.advance()
                if not charge.was_ready:
                    break
            tell()
            stop.wait(ROUND)


class _Charge:
    """One child, and how it is doing."""

    def __init__(self, child: Startable, say: Say, clock: Clock) -> None:
        self.was_ready = False
        self._child = child
        self._say = say
        self._clock = clock
        self._running: Running | None = None
        self._state: Literal["waiting", "starting", "running", "retrying", "stopped"] = "waiting"
        self._reason: str | None = None
        self._starts = 0
        self._started_at = 0.0
        self._delay: float | None = None
        self._due = clock()

    @property
    def status(self) -> ChildStatus:
        return ChildStatus(
            name=self._child.name,
            state=self._state,
            pid=self._running.pid if self._running else None,
            restarts=max(self._starts - 1, 0),
            reason=self._reason,
            retry_in=max(self._due - self._clock(), 0.0) if self._state == "retrying" else None,
        )

    def advance(self) -> None:
        if self._running is None:
            if self._clock() >= self._due:
                self._start()
            return
        reason = self._running.ended()
        if reason is not None:
            self._plan_restart(reason)
        elif self._state == "starting" and self._running.is_ready():
            self._state, self.was_ready = "running", True

    def stop(self, grace: float) -> None:
        if self._running is not None:
            self._running.stop(grace)
        self._running = None
        self._state = "stopped"

    def _start(self) -> None:
        self._starts += 1
        self._started_at = self._clock()
        try:
            self._running = self._child.start(self._say)
        except OSError as error:
            self._plan_restart(f"it cannot be started: {error}")
        else:
            self._state = "starting"

    def _plan_restart(self, reason: str) -> None:
        now = self._clock()
        self._delay = next_delay(self._delay, now - self._started_at)
        self._due = now + self._delay
        self._running, self._state, self._reason = None, "retrying", reason


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
