"""What a supervisor starts and watches: a command as a process of its own, and the embedded broker."""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from braid.infra import brokers
from braid.infra.broker import PART, Broker, stop_all
from braid.infra.brokers import Brokers
from braid.infra.services.service import is_alive
from braid.runtime.logging import Logger

Say = Callable[[str, str], None]

_TETHER = Path(__file__).with_name("tether.py")
log = Logger("supervisor")


class Running(Protocol):
    """Something that was started."""

    @property
    def pid(self) -> int | None: ...

    def is_ready(self) -> bool: ...

    def ended(self) -> str | None:
        """Why it is over; None while it goes on."""

    def stop(self, grace: float) -> None: ...


class Startable(Protocol):
    """Something that can be started, and again after it ended."""

    @property
    def name(self) -> str: ...

    def start(self, say: Say) -> Running: ...


@dataclass(frozen=True)
class Child:
    """A command to keep running; ready as soon as it runs, or when `ready` says so."""

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool] | None = None

    def start(self, say: Say) -> Running:
        return _RunningChild(self, say)


class _RunningChild:
    def __init__(self, child: Child, say: Say) -> None:
        self._child = child
        self._say = say
        self._last_words: deque[str] = deque(maxlen=1)
        tether = (sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()))
        # A session of its own: Ctrl-C reaches the supervisor alone, which ends its children in order.
        self._process = subprocess.Popen(
            (*tether, *child.command),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", bufsize=1, start_new_session=True,
        )  # fmt: skip
        self._listener = threading.Thread(target=self._pass_on, name=f"output of {child.name}", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_ready(self) -> bool:
        return self._child.ready is None or self._child.ready()

    def ended(self) -> str | None:
        code = self._process.poll()
        if code is None:
            return None
        # What it started itself may keep the pipe open for longer than it lived.
        self._listener.join(1.0)
        return explain_exit(code, self._last_words[0] if self._last_words else None)

    def stop(self, grace: float) -> None:
        self._process.terminate()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            log.error(
                "KILLED: it did not end when asked to",
                child=self._child.name,
                pid=self.pid,
                waited=f"{grace:g} s",
            )
            self._process.kill()
            self._process.wait()
        self._listener.join(1.0)

    def _pass_on(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._say(self._child.name, line.rstrip())
                if line.strip():
                    self._last_words.append(line.strip())


def explain_exit(code: int, last_line: str | None) -> str:
    """Why a process is over, with its own last words unless it was silenced."""
    if code < 0:
        return f"ended by signal {-code} ({signal.strsignal(-code)})"
    if code == 0:
        return "ended by itself, with exit code 0"
    return f"exit code {code}: {last_line or 'it said nothing'}"


@dataclass(frozen=True)
class BrokerChild:
    """The embedded brokers: left alone at the end when they ran before, stopped when they were started here."""

    cluster: Brokers
    name: str = "broker"
    started_here: set[Broker] = field(default_factory=set)

    def start(self, say: Say) -> Running:
        return _RunningBroker(self, say)


class _RunningBroker:
    def __init__(self, child: BrokerChild, say: Say) -> None:
        self._cluster = child.cluster
        self._processes: list[psutil.Process] = []
        self._failure: str | None = None
        self._started_here = child.started_here
        self._say = lambda text: say(child.name, text)
        # The broker's start waits until it answers, and the supervisor must not.
        self._starting = threading.Thread(target=self._start, name="start of the broker", daemon=True)
        self._starting.start()

    @property
    def pid(self) -> int | None:
        return self._processes[0].pid if self._processes else None

    def is_ready(self) -> bool:
        return bool(self._processes)

    def ended(self) -> str | None:
        if self._starting.is_alive():
            return None
        gone = [
            f"process {process.pid} is gone; its log is {node.log(PART)}"
            for node, process in zip(self._cluster.nodes, self._processes, strict=False)
            if not is_alive(process)
        ]
        return self._failure or next(iter(gone), None)

    def stop(self, grace: float) -> None:
        self._starting.join()
        stop_all(self._started_here)

    def _start(self) -> None:
        try:
            before = brokers.status(self._cluster)
            missing = {
                node
                for node, state in zip(self._cluster.nodes, before.nodes, strict=True)
                if not state.running
            }
            present = brokers.start(self._cluster, say=self._say)
            self._processes = [psutil.Process(node.pid) for node in present.nodes]
            self._started_here |= missing
        except Exception as error:
            # Whatever it was, it is the supervisor's to show and to try again.
            self._failure = str(error) or repr(error)
