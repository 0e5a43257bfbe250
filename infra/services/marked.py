"""Processes that are known by a mark in their environment, which names their part and the folder that they belong to.

The mark is passed on to what a process starts itself. So there is no file with process ids to go stale, and what was
started by somebody who is gone is found all the same.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import psutil

STOP_TIMEOUT = 20.0


def mark_of(part: str, folder: Path) -> str:
    return f"{part} of {folder}"


def marked(variable: str, folder: Path) -> list[tuple[psutil.Process, str]]:
    """Every process whose mark names this folder, with its part."""
    found = []
    for process in psutil.process_iter():
        try:
            part, _, its_folder = process.environ().get(variable, "").partition(" of ")
        except (psutil.Error, OSError):
            # Gone, or somebody else's.
            continue
        if its_folder == str(folder) and is_alive(process):
            found.append((process, part))
    return found


def end(processes: Iterable[psutil.Process]) -> None:
    """Asks them to end, and kills what has not after a while."""
    asked = list(processes)
    _send(asked, psutil.Process.terminate)
    _wait(asked)
    _send(asked, psutil.Process.kill)
    _wait(asked)


def is_alive(process: psutil.Process) -> bool:
    """One that ended and that nobody has asked about is over, whatever the list of processes says."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _send(processes: Iterable[psutil.Process], signal: Callable[[psutil.Process], None]) -> None:
    for process in filter(is_alive, processes):
        with suppress(psutil.NoSuchProcess):
            signal(process)


def _wait(processes: list[psutil.Process]) -> None:
    deadline = time.monotonic() + STOP_TIMEOUT
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
