"""Runs the API until it is told to stop: open streams are ended, questions that are being answered are not."""

import threading

import uvicorn
from fastapi import FastAPI

from braid.errors import BraidError

# After that long a client that will not let go is let go.
PATIENCE = 3


def serve(app: FastAPI, host: str, port: int, stop: threading.Event) -> None:
    """Blocks until `stop` is set."""
    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", access_log=False, timeout_graceful_shutdown=PATIENCE
    )
    server = uvicorn.Server(config)
    # Signals are the command line's business.
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    failure: list[BaseException] = []

    def run() -> None:
        try:
            server.run()
        except BaseException as error:
            failure.append(error)
        finally:
            stop.set()

    thread = threading.Thread(target=run, name="serve")
    thread.start()
    stop.wait()
    server.should_exit = True
    thread.join()
    if failure or not server.started:
        raise BraidError(
            f"port {port} on {host} cannot be used: stop the process that has it, or choose another one with "
            "BRAID_SERVE_PORT."
        )
