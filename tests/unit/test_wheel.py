"""The wheel, installed alone and outside of the repository: what works with which extra, and what is said else."""

import json
import subprocess
import tarfile
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.conftest import free_port
from tests.waiting import until
from tests.wheel import ROOT, build, install, outside

ARCHIVE = ROOT / "tests" / "homes" / "0.1.0.tar.xz"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, "", tmp_path_factory.mktemp("alone") / "env")


@pytest.fixture(scope="module")
def serving(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, "serve", tmp_path_factory.mktemp("serve") / "env")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data that somebody's engine wrote, and its definitions."""
    folder = tmp_path_factory.mktemp("data")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def told(braid: Path, words: str, folder: Path, **settings: str) -> "subprocess.CompletedProcess[str]":
    command = [str(braid), *words.split()]
    environment = outside() | settings
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_nothing_with_a_general_name_is_installed_at_the_top_level(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"braid", "batch_layer", "speed_layer", "serving_layer", "braid-0.1.0.dist-info"}
    wanted = (
        "braid/infra/jars.sha256",
        "braid/infra/java/braid/LocalFiles.java",
        "braid/dags/daily_batch.py",
        "braid/examples/weblog/__init__.py",
        "serving_layer/page/index.html",
    )
    assert [name for name in wanted if name not in names] == []


def test_the_wheel_alone_defines_and_reads(alone: Path, home: Path, tmp_path: Path) -> None:
    assert told(alone, "--version", tmp_path).stdout.startswith("braid ")
    assert "pyspark not installed" in told(alone, "version", tmp_path).stdout
    assert "page_traffic" in told(alone, "views", tmp_path).stdout
    settings = {"BRAID_HOME": str(home / "home"), "BRAID_DEFINITIONS": str(home / "definitions.py")}
    answer = told(alone, "query page_traffic --json", tmp_path, **settings)
    assert answer.returncode == 0, answer.stderr
    expected = json.loads((home / "expected.json").read_text())["query page_traffic --json"]
    assert len(json.loads(answer.stdout)["rows"]) == len(expected["rows"]) > 0


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("setup", "engine"),
        ("stream", "engine"),
        ("check", "engine"),
        ("batch run", "engine"),
        ("up", "engine"),
        ("demo", "engine"),
        ("produce", "engine"),
        ("serve", "serve"),
        ("airflow up", "airflow"),
    ],
)
def test_a_command_whose_extra_is_missing_says_which_one(
    alone: Path, tmp_path: Path, command: str, extra: str
) -> None:
    answer = told(alone, command, tmp_path)
    assert answer.returncode == 2, answer.stderr
    assert f"pip install 'braid[{extra}]'" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_an_environment_for_serving_answers_without_spark_airflow_or_great_expectations(
    serving: Path, home: Path, tmp_path: Path
) -> None:
    packages = {
        one.name.partition("-")[0] for one in serving.parents[1].glob("lib/*/site-packages/*.dist-info")
    }
    assert packages & {"pyspark", "apache_airflow", "great_expectations", "mypy", "pandas"} == set()
    # 237 were installed for a serving process before there were extras.
    assert len(packages) < 45, sorted(packages)
    port = free_port()
    settings = {"BRAID_HOME": str(home / "home"), "BRAID_DEFINITIONS": str(home / "definitions.py")}
    command = [str(serving), "serve", "--port", str(port)]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(command, cwd=tmp_path, env=outside() | settings, stdout=said, stderr=said)
    try:
        until(lambda: _asked(port, "/health") is not None or process.poll() is not None, 30)
        answer = _asked(port, "/views/page_traffic?limit=5")
        assert answer is not None, (tmp_path / "said").read_text()
        assert len(json.loads(answer)["rows"]) == 5
        page = _asked(port, "/")
        assert page is not None
        assert "<title>" in page
    finally:
        process.terminate()
        process.wait(30)


def _asked(port: int, path: str) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return None
