"""A local Airflow: who can reach it, what it makes of commands' exit codes, and that nobody stays behind."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import psutil
import pytest

from braid.errors import BraidError
from braid.infra.airflow import service as local
from braid.infra.airflow.files import DAGS
from tests.airflow.conftest import DAILY, Running
from tests.conftest import free_port
from tests.waiting import until

DAY, RUN = "2026-03-01", "backfill__2026-03-02T00:00:00+00:00"


class Stub:
    """What stands in for `braid`, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def be_ready(self) -> None:
        (self.folder / "ready").touch()

    def exit(self, **codes: int) -> None:
        """`batch_run=1` lets `braid batch run` fail with 1."""
        lines = (f"{command.replace('_', ' ')}={code}\n" for command, code in codes.items())
        (self.folder / "exits").write_text("".join(lines))

    def calls(self, about: str) -> list[str]:
        calls = self.folder / "calls"
        return [line for line in calls.read_text().splitlines() if about in line] if calls.exists() else []


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Stub:
    return Stub(tmp_path_factory.mktemp("stub"))


@pytest.fixture(scope="module")
def running(stub: Stub, start_airflow: Callable[[dict[str, str]], Running]) -> Running:
    return start_airflow({"BRAID": str(Path(__file__).with_name("stub.sh")), "STUB": str(stub.folder)})


def test_it_starts_with_all_dags_paused_and_one_place_for_spark(running: Running) -> None:
    dags = running.api.ask("GET", "/dags")["dags"]
    assert {dag["dag_id"]: dag["is_paused"] for dag in dags} == dict.fromkeys(
        ("backfill_range", "daily_batch", "kappa_replay", "maintain", "restate"), True
    )
    assert running.api.ask("GET", "/pools/spark")["slots"] == 1


def test_only_this_machine_can_reach_it_and_only_its_owner_can_read_its_secrets(running: Running) -> None:
    listening = {
        (part, connection.laddr.ip.removeprefix("::ffff:"), connection.laddr.port)
        for process, part in running.airflow.processes()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {ip for _, ip, _ in listening} == {"127.0.0.1"}
    # Spark's own ports are the standby's: Airflow itself has one.
    assert {port for part, _, port in listening if part != local.STANDBY} == {running.airflow.port}
    modes = {
        path: path.stat().st_mode & 0o077 for path in (running.airflow.config, running.airflow.passwords)
    }
    assert set(modes.values()) == {0}
    assert running.airflow.folder.stat().st_mode & 0o077 == 0


def test_a_second_start_finds_the_first_and_refuses_other_choices(running: Running) -> None:
    def start(port: int) -> local.AirflowStarted:
        return local.start(
            running.airflow, dags=DAGS, port=port, environment=running.environment, say=lambda text: None
        )

    before = local.status(running.airflow)
    again = start(running.airflow.port)
    assert (again.already, again.new_password) == (True, None)
    assert again.status.processes == before.processes
    with pytest.raises(BraidError, match="runs already on"):
        start(free_port())


def test_changes_that_come_at_once_are_all_made(running: Running) -> None:
    """Who asks for a change is noted in the server's event loop, while another change waits there to be committed."""

    def change_pool(number: int) -> None:
        pool = {"name": "spark", "slots": 1, "description": str(number), "include_deferred": False}
        running.api.ask("PATCH", "/pools/spark", pool)

    def make_run(number: int) -> None:
        # Of a DAG that is paused: it is made, and not begun.
        running.api.ask("POST", "/dags/maintain/dagRuns", {"dag_run_id": f"r{number}", "logical_date": None})

    with ThreadPoolExecutor(4) as people:
        changes = [people.submit(change, n) for n in range(20) for change in (change_pool, make_run)]
    assert [one.exception() for one in changes] == [None] * len(changes)
    assert set(running.runs("maintain")) >= {f"r{number}" for number in range(20)}


@pytest.mark.soak
def test_a_run_waits_without_a_worker_and_keeps_the_cut_that_it_pinned(running: Running, stub: Stub) -> None:
    running.command("dags", "unpause", "-y", DAILY)
    running.command("backfill", "create", "--dag-id", DAILY, "--from-date", DAY, "--to-date", DAY)
    until(lambda: running.runs(DAILY).get(RUN) == "running")
    until(lambda: running.task(DAILY, RUN, "pin_cut")["state"] == "up_for_reschedule")
    assert stub.calls("batch run") == []
    stub.be_ready()
    assert set(running.run_to_its_end(DAILY, RUN).values()) == {"success"}
    first = cuts(stub, DAY)
    assert len(first) == 1

    running.command("tasks", "clear", "-y", "-s", DAY, "-e", DAY, DAILY)
    until(lambda: len(stub.calls(f"batch run --day {DAY}")) == 2)
    assert set(running.run_to_its_end(DAILY, RUN).values()) == {"success"}
    assert cuts(stub, DAY) == first


def cuts(stub: Stub, day: str) -> set[str]:
    """Every cut that was given to a command about a day."""
    given = (re.search(r"--cut (\S+)", line) for line in stub.calls(f"--day {day}"))
    return {found[1] for found in given if found}


@pytest.mark.parametrize(
    ("code", "becomes", "day"), [(1, "failed", "2026-04-01"), (70, "up_for_retry", "2026-04-05")]
)
def test_a_check_that_failed_is_final_and_a_crash_is_tried_again(
    running: Running, stub: Stub, code: int, becomes: str, day: str
) -> None:
    stub.be_ready()
    stub.exit(batch_run=code)
    # A run that is triggered in the course of a day is about the day before.
    running.trigger(DAILY, becomes, logical_date=f"{date.fromisoformat(day) + timedelta(days=1)}T12:00:00Z")
    until(lambda: running.task(DAILY, becomes, "compute")["state"] == becomes)
    stub.exit()
    assert running.task(DAILY, becomes, "compute")["try_number"] == 1
    assert len(stub.calls(f"batch run --day {day}")) == 1
    if becomes == "failed":
        assert running.run_to_its_end(DAILY, becomes) == {"pin_cut": "success", "compute": "failed"}
        # What fails the task names the gate and the view, as the last line of the command did.
        said = running.api.ask(
            "GET", f"/dags/{DAILY}/dagRuns/{becomes}/taskInstances/compute/logs/1?full_content=true"
        )
        raised = [text for text in map(json.dumps, said["content"]) if "the check did not hold" in text]
        assert raised
        assert all("held in pages: volume is 3" in text for text in raised)


def test_a_day_can_be_tried_without_a_scheduler(running: Running, stub: Stub) -> None:
    stub.be_ready()
    stub.exit()
    running.command("dags", "test", DAILY, "2026-05-02")
    commands = [line.split(" --")[0] for line in stub.calls("--day 2026-05-01")]
    # Waited for and pinned, then computed, audited, published and compared by one command.
    assert commands == ["batch cut", "batch run"]


def test_a_range_is_computed_chunk_by_chunk_and_a_chunk_that_failed_goes_on_alone(
    running: Running, stub: Stub
) -> None:
    stub.be_ready()
    asked = {"from_day": "2020-01-01", "to_day": "2020-12-31", "views": ["pages", "visits"], "chunk": 200}
    running.trigger("backfill_range", "asked", logical_date=None, **asked)
    assert running.run_to_its_end("backfill_range", "asked") == {"chunks": "success", "compute": "success"}
    (planned,) = stub.calls("batch chunks")
    assert planned == (
        "batch chunks --from 2020-01-01 --to 2020-12-31 --run backfill_range/asked --days 200 "
        "--view pages --view visits"
    )
    assert sorted(stub.calls("batch run --from 2020")) == [
        f"batch run --from {first} --to {last} --cut 2021-01-01T00:00:00+00:00 --view pages --view visits"
        for first, last in (("2020-01-01", "2020-07-18"), ("2020-07-19", "2020-12-31"))
    ]


def test_a_replay_is_promoted_after_a_person_has_approved_and_not_before(
    running: Running, stub: Stub
) -> None:
    running.trigger("kappa_replay", "asked", logical_date=None, view="pages", from_day="2026-03-01")
    until(lambda: running.task("kappa_replay", "asked", "approve")["state"] == "awaiting_input")
    # An answer within the same second, before the scheduler has seen that the task waits, is lost in Airflow 3.3.
    seen = re.compile(r"Received executor event .*task_id='approve'")
    until(lambda: bool(seen.search(running.airflow.log("scheduler").read_text())))
    assert stub.calls("kappa") == ["kappa replay pages --from 2026-03-01", "kappa compare pages"]
    running.api.ask(
        "PATCH",
        "/dags/kappa_replay/dagRuns/asked/taskInstances/approve/-1/hitlDetails",
        {"chosen_options": ["Approve"]},
    )
    assert set(running.run_to_its_end("kappa_replay", "asked").values()) == {"success"}
    assert stub.calls("kappa promote") == ["kappa promote pages"]


def test_an_end_leaves_nobody_behind_and_secrets_outlive_it(running: Running) -> None:
    secrets = running.airflow.secret("api_auth", "jwt_secret", "none"), running.airflow.password
    before = [process for process, _ in running.airflow.processes()]
    assert len(before) >= 3
    assert local.stop(running.airflow) is True
    assert running.airflow.processes() == []
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in before)
    assert local.stop(running.airflow) is False
    assert local.status(running.airflow).running is False
    assert (running.airflow.secret("api_auth", "jwt_secret", "none"), running.airflow.password) == secrets
