"""What running processes tell about themselves: one small document each, read without Spark."""

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import psutil
from pydantic import AfterValidator, TypeAdapter, ValidationError

from braid.errors import BraidError
from braid.runtime import documents
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings

SUPERVISOR = "up"
ENGINE = "engine"
SINKS = "sinks"
FRESH = timedelta(seconds=30)
# How often a status is written that is not on this machine, where each costs a request.
REMOTE_REPORT = 10.0
# The system counts a process's birth from its own start, which it knows to the second.
_BIRTH_IS_KNOWN_TO = timedelta(seconds=2)

log = Logger("status")


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(_in_utc)]


@dataclass(frozen=True)
class QueryStatus:
    """One query: ingest of a source, what derives its events, the stream of a view, or what takes numbers elsewhere."""

    name: str
    kind: Literal["ingest", "derive", "stream", "sink", "alert"]
    state: Literal["starting", "running", "retrying", "stopped", "paused"]
    error: str | None = None
    retry_in: float | None = None
    batch: int | None = None
    rows_per_second: float | None = None
    batch_ms: float | None = None
    lag_events: int | None = None
    lag_seconds: float | None = None
    events: int = 0
    late: int = 0
    revised: int = 0
    state_bytes: int | None = None
    files: int | None = None
    epoch: Moment | None = None
    watermark: Moment | None = None
    view: str | None = None
    source: str | None = None
    version: int | None = None

    @property
    def seconds_left(self) -> float | None:
        """Until it has caught up, at the pace of its newest micro-batch, if nothing more came meanwhile."""
        return self.lag_events / self.rows_per_second if self.lag_events and self.rows_per_second else None


@dataclass(frozen=True)
class ChildStatus:
    """A process that a supervisor looks after; `waiting` is for the one before it in the order of starting."""

    name: str
    state: Literal["waiting", "starting", "running", "retrying", "stopped"]
    pid: int | None = None
    restarts: int = 0
    reason: str | None = None
    retry_in: float | None = None


@dataclass(frozen=True)
class ProcessStatus:
    """A process and its queries; a supervisor has children in their place.

    `place` is where its id means something: from elsewhere, another machine or container, only its heartbeat is seen.
    """

    process: str
    pid: int
    started: Moment
    updated: Moment
    queries: tuple[QueryStatus, ...] = ()
    children: tuple[ChildStatus, ...] = ()
    place: str = ""
    spark_ui: str | None = None


# It passes over fields that only a newer release knows: one may be taking over from the other.
_DOCUMENT = TypeAdapter(ProcessStatus)


@cache
def this_place() -> str:
    """This machine, since it was started, and the group of processes that see each other's ids on it."""
    names = [socket.gethostname()]
    for file in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        path = Path(file)
        try:
            names.append(os.readlink(path) if path.is_symlink() else path.read_text().strip())
        except OSError:
            # Not Linux: a machine's name has to do.
            continue
    return "/".join(names)


def write(settings: Settings, status: ProcessStatus) -> None:
    """Replaces the process's document in one step: a reader sees the old one or the new one.

    A document that cannot be written is a warning: work goes on, and the old document shows its age.
    """
    here = replace(status, place=this_place())
    try:
        documents.write(_file(settings, status.process), _DOCUMENT.dump_json(here, indent=2).decode())
    except BraidError as error:
        log.warning("the status cannot be written", process=status.process, error=str(error))


def read_all(settings: Settings) -> list[ProcessStatus]:
    """The documents of all processes, dead ones too: `is_alive` tells them apart."""
    folder = settings.location("status")
    try:
        names = [name for name in documents.names(folder) if name.endswith(".json")]
    except BraidError as error:
        log.warning("the status cannot be read", folder=folder, error=str(error))
        return []
    return [status for name in names for status in _read(f"{folder}/{name}")]


def forget(settings: Settings, process: str) -> None:
    """Removes the document of a process that ended as it should. One that stays shows its age."""
    try:
        documents.remove(_file(settings, process))
    except BraidError as error:
        log.warning("the status cannot be removed", process=process, error=str(error))


def is_alive(status: ProcessStatus, now: datetime | None = None) -> bool:
    """Whether the process that wrote this still runs, and not a later one that was given the same id.

    Where its id means nothing, its heartbeat tells: whoever has not reported for a while is not there.
    """
    if status.place and status.place != this_place():
        return (now or datetime.now(UTC)) - status.updated <= FRESH
    try:
        process = psutil.Process(status.pid)
        born = datetime.fromtimestamp(process.create_time(), UTC)
        return process.status() != psutil.STATUS_ZOMBIE and born <= status.started + _BIRTH_IS_KNOWN_TO
    except psutil.Error:
        return False


def under_supervision(processes: Sequence[ProcessStatus]) -> list[ProcessStatus]:
    """The supervisor and the processes that it answers for, without what people started beside it."""
    names = {
        child.name for process in processes if process.process == SUPERVISOR for child in process.children
    }
    return [process for process in processes if process.process in {SUPERVISOR, *names}]


def problems(processes: Sequence[ProcessStatus], now: datetime) -> list[str]:
    """Why this installation is not healthy, a sentence each; none when it is."""
    if not any(is_alive(process, now) for process in processes):
        return ["nothing runs: `braid up` starts everything."]
    return [problem for process in processes for problem in _problems_of(process, now)]


def report(processes: Sequence[ProcessStatus], now: datetime) -> dict[str, Any]:
    """Everything that is known, for programs."""
    found = problems(processes, now)
    shown = [_DOCUMENT.dump_python(p, mode="json") | {"running": is_alive(p, now)} for p in processes]
    return {"healthy": not found, "problems": found, "processes": shown}


def _problems_of(process: ProcessStatus, now: datetime) -> Iterator[str]:
    silence = now - process.updated
    if not is_alive(process, now):
        yield f"{process.process} is not running: it last reported at {process.updated:%Y-%m-%d %H:%M:%S} UTC."
    elif silence > FRESH:
        yield f"{process.process} (process {process.pid}) has not reported for {silence.total_seconds():.0f} s."
    else:
        for child in process.children:
            if child.state != "running":
                yield f"{child.name} is {child.state}: {child.reason or 'it is not ready yet'}"
        for query in process.queries:
            if query.state in {"retrying", "stopped"}:
                yield f"{query.name} is {query.state}: {query.error or 'no reason was given'}"


def _file(settings: Settings, process: str) -> str:
    """In the shared home: who asks may be on another machine."""
    return f"{settings.location('status')}/{process}.json"


def _read(file: str) -> Iterator[ProcessStatus]:
    try:
        text = documents.read(file)
        if text is not None:
            yield _DOCUMENT.validate_json(text)
    except (BraidError, ValidationError) as error:
        log.warning("a status document cannot be read and is passed over", file=file, error=str(error))
