"""Runs the API until it is told to stop, within its limits of connections, so that probes are always answered.

Open streams are ended then, questions that are being answered are not.
"""

import asyncio
import gc
import resource
import socket
import sys
import threading
from collections import Counter, OrderedDict
from dataclasses import replace
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from braid.errors import BraidError
from serving_layer.http.access import OPEN
from serving_layer.http.limits import Limits
from serving_layer.http.turns import refused_slowly

# A connection whose first request has not come after so many seconds is closed.
SILENT_FOR = 10.0
# So many beyond the limits are listened to, for what they ask first: a probe is answered, others are turned away. The
# more there can be the better: one that is cut off comes back at once, and one that waits for its refusal does not.
SPARE, MOST_SPARE = 64, 4096
# After that long a client that will not let go is let go.
PATIENCE = 3
# Files that the server itself may have open: tables, libraries, its log.
OWN_FILES = 256
# How long a thread may compute while another waits for the interpreter. A probe waits some times for each thread that
# answers questions: with Python's own 5 ms that adds up to a tenth of a second.
SWITCH_EVERY = 0.0005


class OpenConnections:
    """Which connections are within the limits, and which beyond: of those the oldest makes room for the newest."""

    def __init__(self, limits: Limits, spare: int = SPARE) -> None:
        self.limits, self._spare = limits, spare
        self._within: dict[object, str] = {}
        self._clients: Counter[str] = Counter()
        self._beyond: OrderedDict[object, asyncio.Transport] = OrderedDict()

    def made(self, connection: object, client: str, transport: asyncio.Transport) -> tuple[int, str] | None:
        """None for one within the limits; otherwise status and reason of its refusal."""
        most = self.limits.of_one_client(self.limits.connections)
        if self._clients[client] < most and len(self._within) < self.limits.connections:
            self._within[connection] = client
            self._clients[client] += 1
            return None
        self._beyond[connection] = transport
        if len(self._beyond) > self._spare:
            # Not a polite close, which would wait until a client that does not read has read what was sent.
            self._beyond.popitem(last=False)[1].abort()
        if self._clients[client] >= most:
            return 429, f"{most} connections of one client are open already: close one."
        return 503, f"{self.limits.connections} connections are open already: ask again later."

    def lost(self, connection: object) -> None:
        self._beyond.pop(connection, None)
        client = self._within.pop(connection, None)
        if client is not None:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]


def limited(connections: OpenConnections) -> type[asyncio.Protocol]:
    """Uvicorn's own protocol, within these limits."""
    base: Any = AutoHTTPProtocol

    class LimitedProtocol(base):  # type: ignore[misc]
        app: Any

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            client = self.client[0] if self.client else ""
            refusal = connections.made(self, client, transport)
            if refusal is not None:
                self.app = _turned_away(self.app, *refusal)
            self._silence = asyncio.get_running_loop().call_later(SILENT_FOR, self._close_if_silent)

        def connection_lost(self, exc: Exception | None) -> None:
            self._silence.cancel()
            connections.lost(self)
            super().connection_lost(exc)

        def _close_if_silent(self) -> None:
            if self.cycle is None:
                self.transport.abort()

    return LimitedProtocol


def _turned_away(app: ASGIApp, status: int, reason: str) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in OPEN:
            await app(scope, receive, send)
        else:
            await refused_slowly(status, reason, scope, receive, send)

    return answer


def serve(app: FastAPI, host: str, port: int, stop: threading.Event, limits: Limits | None = None) -> None:
    """Blocks until `stop` is set. In a thread of its own, uvicorn leaves signals to the command line."""
    sys.setswitchinterval(SWITCH_EVERY)
    # What is there now stays: looking through all of it for garbage would stop every thread for a tenth of a second.
    gc.collect()
    gc.freeze()
    with _listening(host, port) as listener:
        server = uvicorn.Server(server_config(app, limits or Limits()))

        def run() -> None:
            try:
                server.run([listener])
            finally:
                stop.set()

        thread = threading.Thread(target=run, name="serve")
        thread.start()
        stop.wait()
        server.should_exit = True
        thread.join()
    if not server.started:
        raise RuntimeError("the server ended before it could answer: what it said above tells why")


def server_config(app: FastAPI, limits: Limits) -> uvicorn.Config:
    """No more connections than this process may have files open, with room for tables and sockets of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + MOST_SPARE + OWN_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    fitting = replace(limits, connections=max(1, min(limits.connections, soft - SPARE - OWN_FILES)))
    spare = max(SPARE, min(MOST_SPARE, soft - fitting.connections - OWN_FILES))
    return uvicorn.Config(
        app, http=limited(OpenConnections(fitting, spare)), ws="none", log_level="warning", access_log=False,
        timeout_graceful_shutdown=PATIENCE,
    )  # fmt: skip


def _listening(host: str, port: int) -> socket.socket:
    """Taken before anything is read: an address that cannot be had is known at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError:
            listener.close()
            raise
        return listener
    except OSError as error:
        raise BraidError(
            f"port {port} on {host} cannot be used ({error.strerror}): stop the process that has it, or choose another "
            "one with BRAID_SERVE_PORT, or another address with BRAID_SERVE_HOST."
        ) from None
