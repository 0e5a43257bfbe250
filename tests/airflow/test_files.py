"""What `braid airflow up` writes and refuses, before anything is started."""

import configparser
import subprocess
from pathlib import Path

import pytest

from braid.cli.platform import services as commands
from braid.errors import BraidError, CheckFailed
from braid.infra.airflow import service as local
from braid.infra.airflow.files import DAGS, LocalAirflow, prepare


@pytest.fixture
def airflow(tmp_path: Path) -> LocalAirflow:
    return LocalAirflow(tmp_path / "home" / "airflow")


def options(airflow: LocalAirflow) -> configparser.RawConfigParser:
    found = configparser.RawConfigParser()
    found.read(airflow.config)
    return found


def test_secrets_are_made_once_and_differ_between_installations(
    airflow: LocalAirflow, tmp_path: Path
) -> None:
    other = LocalAirflow(tmp_path / "other")
    assert prepare(airflow, DAGS, 8080, tmp_path) is True
    assert prepare(other, DAGS, 8080, tmp_path) is True
    first, password = options(airflow), airflow.password
    assert prepare(airflow, DAGS, 8081, tmp_path) is False
    assert airflow.password == password != other.password
    assert options(airflow)["api"]["port"] == "8081"
    for section, name in (("core", "fernet_key"), ("api", "secret_key"), ("api_auth", "jwt_secret")):
        assert options(airflow)[section][name] == first[section][name] != options(other)[section][name]


def test_the_port_and_the_folder_of_dags_are_those_of_the_last_start(
    airflow: LocalAirflow, tmp_path: Path
) -> None:
    assert (airflow.port, airflow.dags) == (8080, DAGS)
    mine = tmp_path / "my dags"
    mine.mkdir()
    (mine / "one.py").touch()
    prepare(airflow, mine, 8099, tmp_path)
    assert (airflow.port, airflow.dags, airflow.address) == (8099, mine, "http://127.0.0.1:8099")


def test_a_percent_sign_in_a_path_is_read_as_one(tmp_path: Path) -> None:
    folder = LocalAirflow(tmp_path / "100%")
    prepare(folder, DAGS, 8080, tmp_path)
    found = configparser.ConfigParser()
    found.read(folder.config)
    assert found["logging"]["base_log_folder"] == str(folder.folder / "logs")


def test_a_folder_without_dags_is_refused(airflow: LocalAirflow, tmp_path: Path) -> None:
    with pytest.raises(BraidError, match=r"there are no DAGs in .* --dags"):
        prepare(airflow, tmp_path, 8080, tmp_path)


def test_a_taken_port_is_refused_with_the_option_to_change(airflow: LocalAirflow) -> None:
    import socket

    with socket.socket() as rival:
        rival.bind(("127.0.0.1", 0))
        rival.listen()
        port = rival.getsockname()[1]
        with pytest.raises(BraidError, match=f"port {port} .* is taken .* --port"):
            local.start(airflow, dags=DAGS, port=port, environment={}, say=lambda text: None)


def test_a_task_runs_braid_where_airflow_was_started(airflow: LocalAirflow, tmp_path: Path) -> None:
    prepare(airflow, DAGS, 8080, tmp_path)
    (tmp_path / "braid.toml").write_text("no_such_setting = 1\n")
    done = subprocess.run([airflow.program, "views"], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 2
    assert "no_such_setting" in done.stderr


def test_tasks_find_the_same_braid_and_no_other_airflow(airflow: LocalAirflow) -> None:
    given = {
        "AIRFLOW__CORE__DAGS_FOLDER": "/elsewhere",
        "BRAID_EPOCH": "2 seconds",
        "BRAID_HOME": "./home",
        "A": "b",
    }
    environment = local.airflow_environment(airflow, given)
    assert environment["AIRFLOW_HOME"] == str(airflow.folder)
    assert environment["BRAID_HOME"] == str(airflow.folder.parent)
    assert environment["BRAID"] == str(airflow.program)
    assert (environment["BRAID_EPOCH"], environment["A"]) == ("2 seconds", "b")
    assert "AIRFLOW__CORE__DAGS_FOLDER" not in environment


def test_the_status_of_what_does_not_run_is_a_failed_check(home: Path) -> None:
    with pytest.raises(CheckFailed, match="braid airflow up"):
        commands.status_airflow()
