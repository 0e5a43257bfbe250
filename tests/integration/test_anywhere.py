"""From the wheel alone, in an empty environment and folder, outside of the repository: from set-up to the dashboard."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import free_port
from tests.waiting import until
from tests.wheel import build, install, outside

pytestmark = pytest.mark.soak

Told = Callable[..., str]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("anywhere")
    return install(build(folder), "all", folder / "env")


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    ports = ("KAFKA_PORT", "KAFKA_CONTROLLER_PORT", "SERVE_PORT", "HEALTH_PORT")
    return {f"BRAID_{name}": str(free_port()) for name in ports} | {"BRAID_SPARK_MEMORY": "1g"}


def test_a_project_is_begun_tested_checked_run_and_looked_at_from_the_wheel_alone(
    program: Path, settings: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "shop"
    environment = outside() | settings | {"PATH": f"{program.parent}:{os.environ['PATH']}"}

    def told(*words: str, at: Path = folder) -> str:
        done = subprocess.run(
            [program, *words],
            cwd=at,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        assert done.returncode == 0, f"braid {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    assert "Braid is set up: " in told("setup", at=tmp_path)
    assert "guessed from 5 events" in told("init", "shop", at=tmp_path)
    assert "4 rows equal" in told("test")
    assert "problems: 0" in told("check")
    with (tmp_path / "said").open("w") as said:
        up = subprocess.Popen([program, "up"], cwd=folder, env=environment, stdout=said, stderr=said)
    try:
        until(lambda: _asked(settings, "/health") is not None or up.poll() is not None, 240)
        told("produce", "--jsonl", "tests/orders.jsonl", "--source", "orders")
        until(lambda: _events(_asked(settings, "/views/orders_per_day")) == 4 or up.poll() is not None, 240)
        told("batch", "run")
        assert "<title>" in str(_asked(settings, "/"))
        assert "balanced" in told("ledger", "orders")
    finally:
        up.terminate()
        up.wait(120)
    answer = json.loads(told("query", "orders_per_day", "--json"))
    assert {row["country"]: row["total"] for row in answer["rows"] if row["events"] == 1} != {}
    assert _events(json.dumps(answer)) == 4, (tmp_path / "said").read_text()[-3000:]


def _events(answer: str | None) -> int:
    return sum(row["events"] for row in json.loads(answer)["rows"]) if answer else 0


def _asked(settings: dict[str, str], path: str) -> str | None:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{settings['BRAID_SERVE_PORT']}{path}", timeout=20
        ) as said:
            return str(said.read().decode())
    except OSError:
        return None
