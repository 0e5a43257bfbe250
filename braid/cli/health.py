"""`--health`: probes and Prometheus see a process that no supervisor answers for."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from braid.runtime.settings import Settings

if TYPE_CHECKING:
    from braid.runtime.status import ProcessStatus

Health = Annotated[
    bool,
    typer.Option("--health", help="Answer /health, /alive and /metrics on BRAID_HEALTH_HOST and _PORT."),
]


@contextmanager
def seen(settings: Settings, wanted: bool) -> Iterator[None]:
    """Answers for this process alone, if that is wanted."""
    if not wanted:
        yield
        return
    from braid.infra.services.health import health_server
    from braid.runtime.status import read_all, this_place

    def mine() -> "list[ProcessStatus]":
        known = read_all(settings)
        return [process for process in known if (process.pid, process.place) == (os.getpid(), this_place())]

    with health_server(settings, mine):
        yield
