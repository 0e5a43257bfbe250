"""Real Airflows on free ports, which end with their tests."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from braid.infra.airflow import service as local
from braid.infra.airflow.api import Api
from braid.infra.airflow.files import DAGS, LocalAirflow
from tests.conftest import free_port
from tests.waiting import until

DAILY = "daily_batch"
OVER = {"success", "failed", "skipped", "upstream_failed", "removed"}


@dataclass(frozen=True)
class Running:
    """A local Airflow that was started for tests."""

    airflow: LocalAirflow
    environment: dict[str, str]

    @property
    def api(self) -> Api:
        return Api(self.airflow)

    def command(self, *arguments: str) -> str:
        """Runs `airflow` as a person does who exported AIRFLOW_HOME."""
        done = subprocess.run(
            [str(Path(sys.executable).with_name("airflow")), *arguments],
            env=self.environment | {"AIRFLOW_HOME": str(self.airflow.folder)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def trigger(self, dag: str, run: str, logical_date: str | None, **conf: Any) -> None:
        """Starts a run of a DAG, which may be paused so far."""
        self.api.unpause(dag)
        asked = {"dag_run_id": run, "logical_date": logical_date, "conf": conf}
        self.api.ask("POST", f"/dags/{dag}/dagRuns", asked)

    def runs(self, dag: str) -> dict[str, str]:
        """The runs of a DAG with their states."""
        return {
            run["dag_run_id"]: run["state"]
            for run in self.api.ask("GET", f"/dags/{dag}/dagRuns?limit=100")["dag_runs"]
        }

    def tasks(self, dag: str, run: str) -> list[dict[str, Any]]:
        tasks = self.api.ask("GET", f"/dags/{dag}/dagRuns/{run.replace('+', '%2B')}/taskInstances?limit=100")
        found: list[dict[str, Any]] = tasks["task_instances"]
        return found

    def task(self, dag: str, run: str, name: str) -> dict[str, Any]:
        return next(task for task in self.tasks(dag, run) if task["task_id"] == name)

    def run_to_its_end(self, dag: str, run: str) -> dict[str, str]:
        """Waits, and returns the state of each task."""
        until(lambda: self.runs(dag).get(run) in OVER)
        return {task["task_id"]: task["state"] for task in self.tasks(dag, run)}


@pytest.fixture(scope="session")
def start_airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[dict[str, str]], Running]]:
    """Starts Airflows, each in a home of its own unless BRAID_HOME is given, and ends them."""
    started: list[LocalAirflow] = []

    def start(variables: dict[str, str]) -> Running:
        home = Path(variables.get("BRAID_HOME") or tmp_path_factory.mktemp("home"))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BRAID")} | variables
        airflow = LocalAirflow(home / "airflow")
        started.append(airflow)
        local.start(airflow, dags=DAGS, port=free_port(), environment=environment, say=lambda text: None)
        return Running(airflow, environment)

    yield start
    for airflow in started:
        local.stop(airflow)
