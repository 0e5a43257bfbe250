"""The processes of a local Airflow, known by their mark: a shell that uses the same AIRFLOW_HOME is nobody of ours."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from infra.airflow.files import MARK, LocalAirflow
from infra.services.marked import mark_of, marked

# Without a log server (the files are on this machine) and without a triggerer (no DAG here defers): the API has the
# only port, and it is open to this machine alone.
PARTS = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}


# Beside Airflow: a Spark that runs already, so that no task has to start one. Tasks do without it if it is gone.
STANDBY = "standby"


def airflow_program() -> str:
    return str(Path(sys.executable).with_name("airflow"))


def spawn(airflow: LocalAirflow, part: str, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Starts a part in the background, in a session of its own."""
    return _spawn(airflow, part, (airflow_program(), *PARTS[part]), environment, airflow.folder)


def spawn_standby(airflow: LocalAirflow, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """In the folder where tasks run their commands, which must be the same for the standby to take them."""
    braid = str(Path(sys.executable).with_name("braid"))
    return _spawn(airflow, STANDBY, (braid, "standby"), environment, Path.cwd())


def _spawn(
    airflow: LocalAirflow, part: str, command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> "subprocess.Popen[bytes]":
    with airflow.log(part).open("wb") as log:
        return subprocess.Popen(
            command,
            env={**environment, MARK: mark_of(part, airflow.folder)},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, start_new_session=True,
        )  # fmt: skip


def ours(airflow: LocalAirflow) -> list[tuple[psutil.Process, str]]:
    """Every process that carries a mark of this Airflow, with its part; tasks too, after their scheduler is gone."""
    return marked(MARK, airflow.folder)


def leader(found: Iterable[tuple[psutil.Process, str]], part: str) -> int | None:
    """The process that was started for a part. Shells of tasks lead a session too, but are no Python."""
    for process, its_part in found:
        try:
            if its_part == part and os.getsid(process.pid) == process.pid and _is_python(process):
                return process.pid
        except (psutil.Error, OSError):
            continue
    return None


def _is_python(process: psutil.Process) -> bool:
    return bool(process.exe() == psutil.Process().exe())
