"""The processes of a local Airflow, known by a mark in their environment.

The mark names the part and the folder, and is passed on to what a process starts itself. So there is no file with
process ids to go stale, tasks are found after their scheduler is gone, and a shell that uses the same AIRFLOW_HOME is
nobody of ours.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from infra.airflow_files import MARK, LocalAirflow

# Without a log server (the files are on this machine) and without a triggerer (no DAG here defers): the API has the
# only port, and it is open to this machine alone.
PARTS = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
STOP_TIMEOUT = 20.0


# Beside Airflow: a Spark that runs already, so that no task has to start one. Tasks do without it if it is gone.
WORKER = "worker"


def airflow_program() -> str:
    return str(Path(sys.executable).with_name("airflow"))


def spawn(airflow: LocalAirflow, part: str, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Starts a part in the background, in a session of its own."""
    return _spawn(airflow, part, (airflow_program(), *PARTS[part]), environment, airflow.folder)


def spawn_worker(airflow: LocalAirflow, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """In the folder where tasks run their commands, which must be the same for the worker to take them."""
    braid = str(Path(sys.executable).with_name("braid"))
    return _spawn(airflow, WORKER, (braid, "worker"), environment, Path.cwd())


def _spawn(
    airflow: LocalAirflow, part: str, command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> "subprocess.Popen[bytes]":
    with airflow.log(part).open("wb") as log:
        return subprocess.Popen(
            command,
            env={**environment, MARK: f"{part} of {airflow.folder}"},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, start_new_session=True,
        )  # fmt: skip


def ours(airflow: LocalAirflow) -> list[tuple[psutil.Process, str]]:
    """Every process that carries a mark of this Airflow, with its part."""
    found = []
    for process in psutil.process_iter():
        try:
            part, _, folder = process.environ().get(MARK, "").partition(" of ")
        except (psutil.Error, OSError):
            # Gone, or somebody else's.
            continue
        if folder == str(airflow.folder) and _is_alive(process):
            found.append((process, part))
    return found


def leader(found: Iterable[tuple[psutil.Process, str]], part: str) -> int | None:
    """The process that was started for a part. Shells of tasks lead a session too, but are no Python."""
    for process, its_part in found:
        try:
            if its_part == part and os.getsid(process.pid) == process.pid and _is_python(process):
                return process.pid
        except (psutil.Error, OSError):
            continue
    return None


def end(processes: Iterable[psutil.Process]) -> None:
    """Asks them to end, and kills what has not after a while."""
    asked = list(processes)
    _send(asked, psutil.Process.terminate)
    _wait(asked)
    _send(asked, psutil.Process.kill)
    _wait(asked)


def _send(processes: Iterable[psutil.Process], signal: Callable[[psutil.Process], None]) -> None:
    for process in filter(_is_alive, processes):
        with suppress(psutil.NoSuchProcess):
            signal(process)


def _wait(processes: list[psutil.Process]) -> None:
    deadline = time.monotonic() + STOP_TIMEOUT
    while any(map(_is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)


def _is_alive(process: psutil.Process) -> bool:
    """One that ended and that nobody has asked about is over, whatever the list of processes says."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _is_python(process: psutil.Process) -> bool:
    return bool(process.exe() == psutil.Process().exe())
