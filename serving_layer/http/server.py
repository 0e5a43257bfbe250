"""Runs the API until it is told to stop: open streams are ended, questions that are being answered are not."""

import resource
import socket
import threading
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from braid.errors import BraidError
from serving_layer.http.connections import SPARE, OpenConnections, limited
from serving_layer.http.limits import Limits

# After that long a client that will not let go is let go.
PATIENCE = 3
# Files that the server itself may have open: tables, libraries, its log.
OWN_FILES = 256


def serve(app: FastAPI, host: str, port: int, stop: threading.Event, limits: Limits | None = None) -> None:
    """Blocks until `stop` is set. In a thread of its own, uvicorn leaves signals to the command line."""
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
    wanted = limits.connections + SPARE + OWN_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    fitting = replace(limits, connections=max(1, min(limits.connections, soft - SPARE - OWN_FILES)))
    return uvicorn.Config(
        app, http=limited(OpenConnections(fitting)), ws="none", log_level="warning", access_log=False,
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
