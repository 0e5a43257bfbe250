"""A supervisor restarts what dies without hurry, ends what it started in order, and takes its children along."""

import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from braid.cli.platform.watch import Watch, describe
from braid.infra.services.children import Child, explain_exit
from braid.infra.services.supervisor import next_delay, supervise
from braid.runtime.settings import Settings
from braid.runtime.status import (
    ChildStatus,
    ProcessStatus,
    QueryStatus,
    read_all,
)
from tests.waiting import until

HANGS = "import time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + HANGS


def python(name: str, code: str, ready: Callable[[], bool] | None = None) -> Child:
    return Child(name, (sys.executable, "-c", code), ready)


@dataclass
class Seen:
    """What a supervisor said while it ran."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    rounds: list[tuple[ChildStatus, ...]] = field(default_factory=list)

    def child(self, name: str) -> ChildStatus:
        return next(child for child in self.rounds[-1] if child.name == name)

    def states(self, name: str) -> list[str]:
        """Without repetition."""
        every = (child.state for children in self.rounds for child in children if child.name == name)
        return [state for state, _ in itertools.groupby(every)]

    def has_said(self, name: str, line: str) -> bool:
        return (name, line) in self.lines

    def is_in(self, name: str, state: str) -> bool:
        return bool(self.rounds) and self.child(name).state == state


@contextmanager
def supervised(
    *children: Child, grace: float = 30.0, clock: Callable[[], float] | None = None
) -> Iterator[Seen]:
    """The supervisor runs while the block does; afterwards it has stopped."""
    seen, stop = Seen(), threading.Event()
    options = {"clock": clock} if clock else {}
    worker = threading.Thread(
        target=supervise,
        args=(children,),
        kwargs={
            "stop": stop, "grace": grace, "on_round": seen.rounds.append,
            "say": lambda name, line: seen.lines.append((name, line)), **options,
        },
    )  # fmt: skip
    worker.start()
    try:
        yield seen
    finally:
        stop.set()
        worker.join()


def test_the_wait_before_a_restart_doubles_up_to_a_minute() -> None:
    delays: list[float] = []
    for _ in range(9):
        delays.append(next_delay(delays[-1] if delays else None, ran_for=0.1))
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_the_wait_begins_anew_after_a_steady_run() -> None:
    assert next_delay(32, ran_for=59.9) == 60
    assert next_delay(32, ran_for=60) == 1


@pytest.mark.parametrize(
    ("code", "last_line", "reason"),
    [
        (2, "error: no such file", "exit code 2: error: no such file"),
        (1, None, "exit code 1: it said nothing"),
        (0, "done", "ended by itself, with exit code 0"),
        (-9, "batch committed", "ended by signal 9 (Killed)"),
        (-40, None, "ended by signal 40 (Real-time signal 6)"),
    ],
)
def test_the_reason_of_an_end_is_a_sentence(code: int, last_line: str | None, reason: str) -> None:
    assert explain_exit(code, last_line) == reason


def test_output_passes_through_with_the_childs_name() -> None:
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr, flush=True);" + HANGS
    with supervised(python("one", code)) as seen:
        until(lambda: seen.has_said("one", "up"))
    assert seen.lines == [("one", "out"), ("one", "err"), ("one", "up")]


def test_a_child_that_dies_is_started_again_after_its_wait_and_not_before() -> None:
    now = 1000.0
    code = "import sys; print('error: the disk is full', file=sys.stderr); sys.exit(2)"
    with supervised(python("one", code), clock=lambda: now) as seen:
        until(lambda: seen.is_in("one", "retrying"))
        assert seen.child("one") == ChildStatus(
            "one",
            "retrying",
            pid=None,
            restarts=0,
            reason="exit code 2: error: the disk is full",
            retry_in=1.0,
        )
        now += 0.9
        rounds = len(seen.rounds)
        until(lambda: len(seen.rounds) > rounds + 2)
        assert len(seen.lines) == 1
        now += 0.2
        until(lambda: seen.is_in("one", "retrying") and seen.child("one").restarts == 1)
        assert seen.child("one").retry_in == 2.0
    assert len(seen.lines) == 2


def test_a_killed_child_comes_back_and_the_others_are_left_alone() -> None:
    with supervised(python("one", HANGS), python("two", HANGS)) as seen:
        until(lambda: seen.is_in("two", "running"))
        first, other = seen.child("one").pid, seen.child("two").pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        until(lambda: seen.child("one").state == "running" and seen.child("one").restarts == 1)
        assert seen.child("one").reason == "ended by signal 9 (Killed)"
        assert seen.child("one").pid != first
        assert seen.child("two").pid == other
    assert seen.states("two") == ["waiting", "starting", "running", "stopped"]


def test_a_command_that_does_not_exist_is_retried_with_the_reason() -> None:
    with supervised(Child("one", ("/nowhere/braid",))) as seen:
        until(lambda: seen.is_in("one", "retrying"))
    reason = next(children[0].reason for children in seen.rounds if children[0].state == "retrying")
    assert reason == "exit code 1: cannot run /nowhere/braid: No such file or directory"


def test_a_child_waits_until_the_one_before_it_is_ready() -> None:
    ready = threading.Event()
    with supervised(python("one", HANGS, ready.is_set), python("two", HANGS)) as seen:
        until(lambda: seen.has_said("one", "up") and len(seen.rounds) > 3)
        assert seen.is_in("one", "starting")
        assert seen.is_in("two", "waiting")
        ready.set()
        until(lambda: seen.is_in("two", "running"))
        assert seen.is_in("one", "running")


def test_children_are_ended_in_reverse_order_and_gently() -> None:
    code = (
        "import signal, sys, threading\n"
        "ended = threading.Event()\n"
        "signal.signal(signal.SIGTERM, lambda *_: ended.set())\n"
        "print('up', flush=True)\n"
        "while not ended.wait(0.05): pass\n"
        "print('bye', flush=True)"
    )
    with supervised(python("one", code), python("two", code)) as seen:
        until(lambda: seen.has_said("one", "up") and seen.has_said("two", "up"))
        pids = [child.pid for child in seen.rounds[-1]]
    assert seen.lines[-2:] == [("two", "bye"), ("one", "bye")]
    assert not any(pid is not None and psutil.pid_exists(pid) for pid in pids)
    assert {child.state for child in seen.rounds[-1]} == {"stopped"}


def test_a_child_that_does_not_end_when_asked_is_killed_loudly(caplog: pytest.LogCaptureFixture) -> None:
    deaf = python("deaf", DEAF)
    with (
        caplog.at_level("ERROR", "braid.supervisor"),
        propagating("braid"),
        supervised(deaf, grace=0.3) as seen,
    ):
        until(lambda: seen.has_said("deaf", "up"))
        pid = seen.child("deaf").pid
    assert pid is not None
    assert not psutil.pid_exists(pid)
    assert "KILLED: it did not end when asked to" in caplog.text


@contextmanager
def propagating(name: str) -> Iterator[None]:
    """Another test may have configured the log to go to stderr alone."""
    logger = logging.getLogger(name)
    before, logger.propagate = logger.propagate, True
    yield
    logger.propagate = before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child together with its parent")
def test_kill_9_of_a_supervisor_takes_its_children_along() -> None:
    code = (
        "import sys, threading\n"
        "from braid.infra.services.children import Child\n"
        "from braid.infra.services.supervisor import supervise\n"
        f"children = [Child(name, (sys.executable, '-c', {DEAF!r})) for name in ('one', 'two')]\n"
        "def tell(children):\n"
        "    if all(child.state == 'running' for child in children):\n"
        "        print(*(child.pid for child in children), flush=True)\n"
        "supervise(children, stop=threading.Event(), say=lambda *_: None, on_round=tell)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as told:
        children = [psutil.Process(int(pid)) for pid in told.readline().split()]
        process.kill()
        process.wait()
    assert len(children) == 2
    _, left = psutil.wait_procs(children, timeout=30)
    assert left == []


def test_the_supervisors_document_tells_about_its_children(home: Path) -> None:
    settings = Settings(home=str(home))
    child = ChildStatus("engine", "retrying", restarts=1, reason="exit code 2: error: no", retry_in=2.0)
    Watch(settings).on_round((child,))
    (document,) = read_all(settings)
    assert (document.process, document.pid, document.children) == ("up", os.getpid(), (child,))


def test_lines_of_children_are_json_where_the_log_is_json(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Watch(Settings(home=str(home))).say("engine", "a line")
    Watch(Settings(home=str(home), log_format="json")).say("engine", '{"event": "batch committed"}')
    assert capsys.readouterr().err == 'engine | a line\n{"event": "batch committed"}\n'


def test_a_child_is_described_in_one_line() -> None:
    noon = datetime(2024, 3, 8, 12, tzinfo=UTC)
    queries = (
        QueryStatus("requests", "ingest", "running", rows_per_second=1200, lag_events=3, epoch=noon),
        QueryStatus("hits", "stream", "retrying", rows_per_second=900, lag_seconds=0.8),
    )
    engine = ProcessStatus("engine", 1, noon, noon, queries)
    assert describe(ChildStatus("engine", "running", restarts=1), engine) == (
        "engine   running  restarts 1  epoch 12:00:00  lag 3 events  lag 0.8 s  1,200 rows/s  retrying: hits"
    )
    assert describe(ChildStatus("broker", "retrying", reason="gone", retry_in=4), None) == (
        "broker   retrying restarts 0  in 4 s: gone"
    )
