"""What a day costs under Airflow, and what of it is Airflow's: `python -m bench.airflow [--days N] [--events N]`.

A backfill of `daily_batch` with a program that does nothing and takes no time. What a task takes then is Airflow's: its
own process, its talk with the API, and the pause until the scheduler starts the next one. Then the same days of three
views with Braid itself, and a standby: what it takes beyond the same number of empty tasks is the work.
"""

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.backfill import alone
from bench.shared import three_views
from bench.shared.common import ResultRow, arguments, percentile, scratch_folder, show
from braid.infra.airflow import service as local
from braid.infra.airflow.api import Api
from braid.infra.airflow.files import DAGS, LocalAirflow
from braid.infra.services.service import free_port

DAG = "daily_batch"
FIRST = date(2026, 3, 1)
NOTHING = """#!/bin/sh
case "$1 $2" in
    "batch cut") echo 2026-04-01T00:00:00+00:00 ;;
esac
"""
PATIENCE = 1800.0
WANTED_BEYOND = 15.0


@contextmanager
def own_airflow(home: Path, variables: dict[str, str]) -> Iterator[Api]:
    """An Airflow whose tasks work on the home that it is in."""
    airflow = LocalAirflow(home / "airflow")
    try:
        environment = os.environ | variables
        local.start(airflow, dags=DAGS, port=free_port(), environment=environment, say=print)
        yield Api(airflow)
    finally:
        local.stop(airflow)


def nothing(folder: Path) -> dict[str, str]:
    """Tasks that do nothing."""
    program = folder / "does-nothing"
    program.write_text(NOTHING)
    program.chmod(0o700)
    return {"BRAID": str(program)}


def braid(home: Path, days: int, events: int) -> dict[str, str]:
    """Tasks that are Braid's, over a log that is there."""
    alone(home, f"make {days} {events}")
    return {"BRAID_DEFINITIONS": str(Path(three_views.__file__).resolve())}


def backfill(api: Api, days: int) -> list[dict[str, Any]]:
    """Runs a backfill to its end; its tasks."""
    api.unpause(DAG)
    last = FIRST + timedelta(days=days - 1)
    asked = {
        "dag_id": DAG,
        "from_date": f"{FIRST}T00:00:00Z",
        "to_date": f"{last}T00:00:00Z",
        "max_active_runs": 1,
    }
    api.ask("POST", "/backfills", asked)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        runs = [r for r in api.ask("GET", f"/dags/{DAG}/dagRuns")["dag_runs"] if r["run_type"] == "backfill"]
        if len(runs) == days and all(run["state"] == "success" for run in runs):
            return [task for run in runs for task in tasks(api, run["dag_run_id"])]
        time.sleep(0.5)
    raise TimeoutError(f"the backfill did not succeed within {PATIENCE:.0f} s")


def tasks(api: Api, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.ask("GET", f"/dags/{DAG}/dagRuns/{quote(run)}/taskInstances")[
        "task_instances"
    ]
    return sorted(found, key=lambda task: str(task["start_date"]))


def measure(days: int, events: int) -> dict[str, Any]:
    with scratch_folder() as folder:
        found = {}
        full = folder / "home"
        for name, home, variables in (
            ("nothing", folder / "empty", nothing(folder)),
            ("braid", full, braid(full, days, events)),
        ):
            with own_airflow(home, variables) as api:
                found[name] = counted(backfill(api, days), days)
    return {"days": days, "events": events, **found}


def counted(done: list[dict[str, Any]], days: int) -> dict[str, Any]:
    lengths = [float(task["duration"]) for task in done]
    pauses = [
        (moment(after["start_date"]) - moment(before["end_date"])).total_seconds()
        for before, after in itertools.pairwise(done)
        if before["dag_run_id"] == after["dag_run_id"]
    ]
    a_day = sum(lengths) / days + sum(pauses) / days
    whole = max(moment(task["end_date"]) for task in done) - min(moment(task["start_date"]) for task in done)
    return {
        "tasks": len(done), "task": lengths, "pause": pauses, "day": a_day, "all": whole.total_seconds()
    }  # fmt: skip


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def rows(result: dict[str, Any]) -> list[ResultRow]:
    def spread(values: list[float]) -> str:
        return f"{statistics.median(values):.1f} s (95 %: {percentile(values, 0.95):.1f} s)"

    empty, full, per_day = result["nothing"], result["braid"], result["nothing"]["tasks"] // result["days"]
    beyond = full["day"] - empty["day"]
    return [
        ResultRow("a task that does nothing, from start to end", spread(empty["task"])),
        ResultRow("from the end of a task to the start of the next", spread(empty["pause"])),
        ResultRow(f"a day of {per_day} empty tasks", f"{empty['day']:.1f} s"),
        ResultRow(f"a day of {result['events']:,} events, three views", f"{full['day']:.1f} s"),
        ResultRow("  beyond that of empty tasks", f"{beyond:.1f} s", wanted=f"<= {WANTED_BEYOND:.0f} s"),
        ResultRow(
            f"{result['days']} such days, from the first start to the last end", f"{full['all']:.1f} s"
        ),
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=int, default=3, help="of the backfill")
    parser.add_argument("--events", type=int, default=6_500, help="of a day")


def main() -> None:
    options = arguments(__doc__, add_arguments)
    found = measure(options.days, options.events)
    show("what Airflow adds", rows(found), found, options.json)


if __name__ == "__main__":
    main()
