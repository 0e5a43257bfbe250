"""A run and what is told of it: that it began, and how it ended; nothing unless BRAID_LINEAGE says where to."""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from braid.define.codec import braid_version
from braid.lineage.events import EventType, LineageJob, ParentRun, Teller, Told
from braid.lineage.receiver import logger, send
from braid.runtime.settings import Settings

# As OpenLineage's own clients and Airflow's provider call them.
NAMESPACE, PARENT = "OPENLINEAGE_NAMESPACE", "OPENLINEAGE_PARENT_ID"


@dataclass(frozen=True)
class LineageRun:
    """One run of a job that has begun."""

    settings: Settings
    teller: Teller
    job: LineageJob
    run: str

    def end(self, told: Told | None = None, error: BaseException | None = None) -> None:
        """An interruption is no failure: nothing was wrong with what was done."""
        kind: EventType = "COMPLETE"
        if error is not None:
            kind = "FAIL" if isinstance(error, Exception) else "ABORT"
        at = datetime.now(UTC)
        send(self.settings, self.teller.event(kind, at, self.run, self.job, told, error))


def begun(settings: Settings, job: Callable[[], LineageJob]) -> LineageRun | None:
    """None, and nothing is looked up, where nobody asked for lineage."""
    if not settings.lineage:
        return None
    run = LineageRun(settings, _teller(), job(), str(uuid.uuid4()))
    send(settings, run.teller.event("START", datetime.now(UTC), run.run, run.job))
    return run


@contextmanager
def traced(settings: Settings, jobs: Callable[[], Iterable[LineageJob]]) -> Iterator[dict[str, Told]]:
    """Jobs that begin and end together. Inside, what is known of each is told by its name."""
    told: dict[str, Told] = {}
    found = jobs() if settings.lineage else ()
    runs = [run for job in found if (run := begun(settings, lambda job=job: job)) is not None]  # type: ignore[misc]
    try:
        yield told
    except BaseException as error:
        for run in runs:
            run.end(told.get(run.job.name), error)
        raise
    for run in runs:
        run.end(told.get(run.job.name))


def _teller() -> Teller:
    namespace = os.environ.get(NAMESPACE) or "braid"
    return Teller(namespace, f"urn:braid:{braid_version()}", parent_run(os.environ.get(PARENT, "")))


def parent_run(text: str) -> ParentRun | None:
    """NAMESPACE/JOB/RUN, as Airflow's macro lineage_parent_id writes it; a namespace may hold slashes itself."""
    if not text:
        return None
    head, _, run = text.rpartition("/")
    namespace, _, job = head.rpartition("/")
    with suppress(ValueError):
        if namespace and job:
            return ParentRun(namespace, job, str(uuid.UUID(run)))
    logger.warning(
        "lineage has no parent", reason=f"{PARENT}={text!r} is not NAMESPACE/JOB/RUN with RUN a UUID"
    )
    return None
