"""A service on this machine: processes in the background that belong to a folder, started, found again and stopped.

Each process carries a mark in its environment, which names its part and the folder, and passes it on to what it starts
itself. So there is no file with process ids to go stale, and what was started by somebody who is gone is found all the
same.
"""

import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

import psutil

from braid.errors import BraidError
from braid.infra.preflight import check_java
from braid.runtime.lock import locked

HOST = "127.0.0.1"
LOOK_EVERY = 0.1
STOP_TIMEOUT = 30.0
# Never through a proxy: a service is on this machine.
open_local = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

Children = Mapping[str, "subprocess.Popen[bytes]"]
Found = TypeVar("Found")


class Health(Protocol):
    """What a service says of itself."""

    @property
    def healthy(self) -> bool: ...


Known = TypeVar("Known", bound=Health)


@dataclass(frozen=True)
class Service:
    """Where a service lives, and what it is known by."""

    title: ClassVar[str]
    # The variable that holds the mark.
    mark: ClassVar[str]
    # The part that the others need until they have ended.
    ends_last: ClassVar[str] = ""

    folder: Path

    def log(self, part: str) -> Path:
        return self.folder / f"{part}.log"

    def marked(self, part: str) -> str:
        return f"{part} of {self.folder}"

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Two starts at the same moment would both see a free port."""
        with locked(self.folder / "start.lock"):
            yield

    def spawn(
        self, part: str, command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
    ) -> "subprocess.Popen[bytes]":
        """Starts a part in the background, in a session of its own."""
        with self.log(part).open("wb") as log:
            return subprocess.Popen(
                command, env={**environment, self.mark: self.marked(part)}, cwd=folder or self.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def wait(self, ask: Callable[[], Known], children: Children, timeout: float, missing: str) -> Known:
        """What it says of itself once it is healthy; an error when a child ends, or when that takes too long."""

        def look() -> Known | None:
            if (present := ask()).healthy:
                return present
            # Asked of the children themselves: in its first moment a process shows no environment, and so no mark.
            for part, child in children.items():
                if child.poll() is not None:
                    raise BraidError(
                        f"{self.title} {missing}: its {part} has ended. {last_words(self.log(part))}"
                    )
            return None

        if (found := waited_for(look, timeout)) is None:
            log = self.log(self.ends_last or next(iter(children), ""))
            raise BraidError(f"{self.title} {missing} after {timeout:.0f} s. {last_words(log)}")
        return found

    def processes(self) -> list[tuple[psutil.Process, str]]:
        """Every process that carries the mark of this folder, with its part: also what a part has started."""
        found = []
        for process in psutil.process_iter():
            try:
                part, _, folder = process.environ().get(self.mark, "").partition(" of ")
            except (psutil.Error, OSError):
                # Gone, or somebody else's.
                continue
            if folder == str(self.folder) and is_alive(process):
                found.append((process, part))
        return found

    def leaders(self) -> dict[str, int]:
        """The processes that were started as parts: part -> process id."""
        found: dict[str, int] = {}
        for process, part in self.processes():
            with suppress(psutil.Error, OSError):
                if os.getsid(process.pid) == process.pid and self.leads(process):
                    found.setdefault(part, process.pid)
        return found

    def leads(self, process: psutil.Process) -> bool:
        """Whether a process that leads a session can be a part; what parts start themselves leads none."""
        return True

    def end(self) -> bool:
        """Ends all its processes; whether there were any."""
        found = self.processes()
        end(process for process, part in found if part != self.ends_last)
        # The last one, and what was started in the meantime.
        end(process for process, _ in self.processes())
        return bool(found)

    def require_java(self) -> None:
        java = check_java()
        if not java.ok:
            raise BraidError(f"{self.title} cannot start: {java.detail}. {java.fix}")


@contextmanager
def killed_on_failure(children: Mapping[str, "subprocess.Popen[bytes]"]) -> Iterator[None]:
    """What was started here and does not answer must not stay behind, also on Ctrl-C."""
    try:
        yield
    except BaseException:
        for child in children.values():
            child.kill()
            child.wait()
        raise


def end(processes: Iterable[psutil.Process]) -> None:
    """Asks them to end, and kills what has not after a while."""
    asked = list(processes)
    for signal in (psutil.Process.terminate, psutil.Process.kill):
        for process in filter(is_alive, asked):
            with suppress(psutil.NoSuchProcess):
                signal(process)
        waited_for(lambda: None if any(map(is_alive, asked)) else True, STOP_TIMEOUT)


def is_alive(process: psutil.Process) -> bool:
    """One that ended and that nobody has asked about is over, whatever the list of processes says."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def waited_for(look: Callable[[], Found | None], timeout: float) -> Found | None:
    """What `look` finds, as soon as it does; None when it has not in time."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if (found := look()) is not None:
            return found
        time.sleep(LOOK_EVERY)
    return None


def last_words(log: Path) -> str:
    """The last error in a program's log, and where that log is."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    errors = [line for line in lines[-200:] if re.search(r"(?i:error)\b|Exception", line)]
    reason = f"Its last error: {errors[-1].strip()} " if errors else ""
    return f"{reason}Its log is {log}."


def refuse_taken_ports(ports: Mapping[str, int]) -> None:
    """For each port, how another one is chosen: an error says so when somebody else has it."""
    for choice, port in ports.items():
        if port_is_taken(port):
            raise BraidError(
                f"port {port} on {HOST} is taken by another process: stop that one, or choose another port with "
                f"{choice}."
            )


def port_is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False


def free_port() -> int:
    """A port that nobody has at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
