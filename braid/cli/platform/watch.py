"""How `braid up` is seen: its document, a line a child on a terminal, log lines elsewhere."""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Group
from rich.live import Live
from rich.text import Text

from braid.cli.output import errors
from braid.runtime.logging import Logger, configure
from braid.runtime.settings import Settings
from braid.runtime.status import SUPERVISOR, ChildStatus, ProcessStatus, read_all, write

EVERY = 1.0
COLOURS = {"running": "green", "retrying": "bold red"}

log = Logger("up")


@contextmanager
def watching(settings: Settings) -> Iterator["Watch"]:
    """A terminal shows the present state below the log; the log then has to go through its hands."""
    if not errors.is_terminal:
        yield Watch(settings)
        return
    with Live(console=errors, auto_refresh=False, transient=True) as live:
        configure(settings.log_level, settings.log_format)
        yield Watch(settings, live)
    configure(settings.log_level, settings.log_format)


class Watch:
    """Told by the supervisor after every round, and by the children's output line by line."""

    def __init__(self, settings: Settings, live: Live | None = None) -> None:
        self._settings = settings
        self._live = live
        self._started = datetime.now(UTC)
        self._known: tuple[ChildStatus, ...] = ()
        self._shown_at = float("-inf")
        self._speaking = threading.Lock()

    def say(self, child: str, line: str) -> None:
        """Whole lines, one at a time: every child has a thread that calls this."""
        if self._settings.log_format == "json" and not line.startswith("{"):
            log.info(line, child=child)
            return
        prefix = "" if self._settings.log_format == "json" else f"{child} | "
        with self._speaking:
            print(f"{prefix}{line}", file=sys.stderr, flush=True)

    def on_round(self, children: tuple[ChildStatus, ...]) -> None:
        changes = [new for new in children if not any(_same(new, old) for old in self._known)]
        self._known = children
        for child in changes:
            _log_change(child)
        if changes or time.monotonic() - self._shown_at >= EVERY:
            self._shown_at = time.monotonic()
            now = datetime.now(UTC)
            write(
                self._settings,
                ProcessStatus(SUPERVISOR, os.getpid(), self._started, now, children=children),
            )
            if self._live:
                self._live.update(_display(children, read_all(self._settings)), refresh=True)


def describe(child: ChildStatus, process: ProcessStatus | None) -> str:
    """One line: the state, and of what it runs the newest epoch, the lag and the speed."""
    parts = [f"{child.name:8} {child.state:8} restarts {child.restarts}"]
    if child.state == "retrying":
        parts.append(f"in {child.retry_in or 0:.0f} s: {child.reason}")
    elif process is not None and process.queries:
        parts.append(_progress(process))
    return "  ".join(parts)


def _progress(process: ProcessStatus) -> str:
    """The newest epoch of all queries, the worst lag, and the speed at which records come in."""
    queries = process.queries
    epochs = [query.epoch for query in queries if query.epoch]
    events = [query.lag_events for query in queries if query.lag_events is not None]
    seconds = [query.lag_seconds for query in queries if query.lag_seconds is not None]
    rates = [query.rows_per_second or 0 for query in queries if query.kind == "ingest"]
    retrying = [query.name for query in queries if query.state == "retrying"]
    shown = (
        f"epoch {max(epochs):%H:%M:%S}" if epochs else "",
        f"lag {max(events):,} events" if events else "",
        f"lag {max(seconds):.1f} s" if seconds else "",
        f"{sum(rates):,.0f} rows/s" if rates else "",
        f"retrying: {', '.join(retrying)}" if retrying else "",
    )
    return "  ".join(part for part in shown if part)


def _display(children: Sequence[ChildStatus], processes: Sequence[ProcessStatus]) -> Group:
    by_pid = {process.pid: process for process in processes}
    lines = (
        Text(describe(child, by_pid.get(child.pid or 0)), COLOURS.get(child.state, ""), no_wrap=True)
        for child in children
    )
    return Group(*lines)


def _same(one: ChildStatus, other: ChildStatus) -> bool:
    return (one.name, one.state, one.restarts) == (other.name, other.state, other.restarts)


def _log_change(child: ChildStatus) -> None:
    if child.state == "retrying":
        wait = f"{child.retry_in or 0:.0f} s"
        log.warning("a process ended and is started again", child=child.name, after=wait, reason=child.reason)
    elif child.state != "waiting":
        log.info(child.state, child=child.name, pid=child.pid, restarts=child.restarts)
