"""The DAGs order commands, and that is all: what each task runs, after what, with which cut, and how often."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CUT = "{{ ti.xcom_pull(task_ids='pin_cut') }}"
# These start no Spark, and must not wait for a place among those that do.
QUICK = {"pin_cut", "chunks", "approve"}


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Airflow makes of the folder."""
    home = {"AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    script = Path(__file__).with_name("read_dags.py")
    # Isolated (-P): the DAGs must find each other without this folder or the repository on the path.
    done = subprocess.run(
        [sys.executable, "-P", str(script), str(ROOT / "dags")],
        env=os.environ | home, capture_output=True, text=True, check=True, cwd=home["AIRFLOW_HOME"],
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture
def tasks(read: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(dag, name): task for dag, one in read["dags"].items() for name, task in one["tasks"].items()}


def chain(dag: dict[str, Any]) -> list[str]:
    """The tasks of a DAG in their one possible order."""
    order: list[str] = []
    while len(order) < len(dag["tasks"]):
        (following,) = (
            n for n, task in dag["tasks"].items() if task["upstream"] == order[-1:] and n not in order
        )
        order.append(following)
    return order


def test_every_dag_is_read_without_an_error(read: dict[str, Any]) -> None:
    assert read["errors"] == {}
    assert sorted(read["dags"]) == ["backfill_range", "daily_batch", "kappa_replay", "maintain", "restate"]


def test_reading_the_dags_imports_nothing_of_braid(read: dict[str, Any]) -> None:
    assert read["of_braid"] == []


def test_each_dag_is_a_chain(read: dict[str, Any]) -> None:
    assert {name: chain(dag) for name, dag in read["dags"].items()} == {
        "daily_batch": ["pin_cut", "compute"],
        "backfill_range": ["chunks", "compute"],
        "restate": ["pin_cut", "restate"],
        "kappa_replay": ["replay", "compare", "approve", "promote"],
        "maintain": ["maintain"],
    }


def test_a_task_is_one_braid_command(tasks: dict[tuple[str, str], dict[str, Any]]) -> None:
    for (dag, name), task in tasks.items():
        if task["kind"] == "ApprovalOperator":
            continue
        command = (
            task["command"] if task["mapped"] else task["command"].replace('"${BRAID:-braid}" ', "braid ")
        )
        assert command.count("braid ") == (0 if task["mapped"] else 1), (dag, name)
        assert not re.search(r";|\|", command), (dag, name)


def test_one_cut_is_pinned_for_the_run_and_given_to_every_task_that_computes(
    tasks: dict[tuple[str, str], dict[str, Any]],
) -> None:
    for key in (("daily_batch", "pin_cut"), ("restate", "pin_cut"), ("backfill_range", "chunks")):
        assert '--run "$RUN"' in tasks[key]["command"], key
        assert tasks[key]["env"]["RUN"] == "{{ dag.dag_id }}/{{ run_id }}"
    for key in (("daily_batch", "compute"), ("restate", "restate")):
        assert '--cut "$CUT"' in tasks[key]["command"], key
        assert tasks[key]["env"]["CUT"] == CUT
    # Each chunk says its days and the cut.
    assert '--cut "$CUT"' in tasks["backfill_range", "compute"]["command"]
    assert tasks["backfill_range", "compute"]["mapped"]


def test_nothing_is_put_into_the_text_of_a_shell(tasks: dict[tuple[str, str], dict[str, Any]]) -> None:
    for key, task in tasks.items():
        assert "{{" not in (task["command"] or ""), key


def test_the_day_is_where_the_interval_begins(read: dict[str, Any]) -> None:
    daily = read["dags"]["daily_batch"]
    assert daily["schedule"] == "CronDataIntervalTimetable"
    assert daily["catchup"] is False
    assert daily["max_active_runs"] == 2
    for name in ("pin_cut", "compute"):
        assert '--day "$DAY"' in daily["tasks"][name]["command"]
        assert daily["tasks"][name]["env"]["DAY"] == "{{ data_interval_start | ds }}"


def test_waiting_for_the_cut_holds_no_worker(tasks: dict[tuple[str, str], dict[str, Any]]) -> None:
    wait = tasks["daily_batch", "pin_cut"]
    assert (wait["mode"], wait["retry_exit_code"]) == ("reschedule", 99)


def test_what_starts_spark_takes_its_place_in_the_pool_and_nothing_else_does(
    tasks: dict[tuple[str, str], dict[str, Any]],
) -> None:
    assert {name for (_, name), task in tasks.items() if task["pool"] != "spark"} == QUICK


def test_commands_are_tried_again_with_growing_pauses_and_end_at_a_time_limit(
    tasks: dict[tuple[str, str], dict[str, Any]],
) -> None:
    for (dag, name), task in tasks.items():
        assert (task["retries"], task["backoff"]) == (3, 2), (dag, name)
        # History takes as long as it takes, and so does a person.
        assert bool(task["timeout"]) == (name not in ("replay", "approve")), (dag, name)


def test_published_days_are_announced_after_they_have_been_compared(
    tasks: dict[tuple[str, str], dict[str, Any]],
) -> None:
    announcing = {key for key, task in tasks.items() if task["outlets"] == ["braid_published"]}
    assert announcing == {
        ("daily_batch", "compute"), ("backfill_range", "compute"), ("restate", "restate"),
    }  # fmt: skip


def test_what_a_person_types_is_no_part_of_a_shells_text(read: dict[str, Any]) -> None:
    asked = read["dags"]["backfill_range"]["params"]
    assert asked["views"]["items"]["pattern"] == "^[A-Za-z_][A-Za-z0-9_]*$"
    assert (asked["from_day"]["format"], asked["to_day"]["format"]) == ("date", "date")
    replay = read["dags"]["kappa_replay"]
    assert replay["params"]["view"]["pattern"] == "^[A-Za-z_][A-Za-z0-9_]*$"
    for name in ("replay", "compare", "promote"):
        assert "params" not in replay["tasks"][name]["command"]
        assert replay["tasks"][name]["env"]["VIEW"] == "{{ params.view }}"
