"""`braid up` runs the platform: what is killed comes back, what is stopped loses nothing and leaves nobody behind."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from braid.infra import broker as embedded
from braid.infra.brokers import Brokers
from braid.infra.services.children import BrokerChild
from braid.infra.services.supervisor import supervise
from braid.runtime.settings import Settings
from braid.runtime.status import ChildStatus, ProcessStatus, write
from tests.conftest import Answer, free_port
from tests.waiting import until

BRAID = (str(Path(sys.executable).with_name("braid")),)
EVENTS = 2000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[embedded.Broker]:
    broker = embedded.Broker(tmp_path / "broker", free_port(), free_port())
    yield broker
    embedded.stop(broker)


@contextmanager
def supervised(broker: embedded.Broker) -> Iterator[Callable[[], ChildStatus]]:
    """A supervisor of the broker alone; yields how to ask for its state."""
    rounds: list[tuple[ChildStatus, ...]] = []
    stop = threading.Event()
    options: dict[str, Any] = {"stop": stop, "say": lambda name, line: None, "on_round": rounds.append}
    worker = threading.Thread(target=supervise, args=([BrokerChild(Brokers((broker,)))],), kwargs=options)
    worker.start()
    try:
        until(lambda: bool(rounds) and rounds[-1][0].state == "running")
        yield lambda: rounds[-1][0]
    finally:
        stop.set()
        worker.join()


def test_a_broker_that_dies_is_started_again_and_stopped_at_the_end(node: embedded.Broker) -> None:
    with supervised(node) as state:
        first = state().pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        until(lambda: state().state == "running" and state().restarts == 1)
        assert embedded.status(node).pid == state().pid != first
    assert not embedded.status(node).running


def test_a_broker_that_ran_before_is_left_running(node: embedded.Broker) -> None:
    before = embedded.start(node)
    with supervised(node) as state:
        assert state().pid == before.pid
    assert embedded.status(node) == before


def test_broken_definitions_are_refused_at_once(
    braid: Callable[..., Answer], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "definitions.py").write_text("requests = Source(\n")
    monkeypatch.setenv("BRAID_DEFINITIONS", str(tmp_path / "definitions.py"))
    answer = braid("up")
    assert answer.code == 2
    assert "definitions.py:1" in answer.err


def test_a_second_one_on_the_same_home_is_refused(braid: Callable[..., Answer], home: Path) -> None:
    now = datetime.now(UTC)
    write(Settings(home=str(home)), ProcessStatus("up", os.getpid(), now, now))
    answer = braid("up")
    assert answer.code == 2
    assert f"up runs already on {home} (process {os.getpid()})" in answer.err


class Platform:
    """`braid up` in a process of its own, and commands beside it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = os.environ | environment
        self.home = Path(environment["BRAID_HOME"])
        self.health = f"http://127.0.0.1:{environment['BRAID_HEALTH_PORT']}/health"
        self.api = f"http://127.0.0.1:{environment['BRAID_SERVE_PORT']}"
        self.up = subprocess.Popen([*BRAID, "up"], env=self.environment)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*BRAID, *arguments], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def answers(self, address: str) -> bool:
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                return int(answer.status) == 200
        except OSError:
            return False

    def process(self, name: str) -> dict[str, Any] | None:
        """A running process, as `braid status` shows it."""
        processes = json.loads(self.run("status", "--json"))["processes"]
        return next((p for p in processes if p["process"] == name and p["running"]), None)

    def child(self, name: str) -> dict[str, Any]:
        supervisor = self.process("up") or {"children": []}
        return next((c for c in supervisor["children"] if c["name"] == name), {"state": None})

    def streamed(self) -> int:
        """Events that the stream of the view has processed since its process was started."""
        queries = (self.process("engine") or {"queries": []})["queries"]
        return sum(query["events"] for query in queries if query["kind"] == "stream")


@pytest.fixture
def platform(tmp_path: Path, home: Path) -> Iterator[Platform]:
    definitions = tmp_path / "definitions.py"
    definitions.write_text("from braid.examples.weblog import page_traffic, requests\n")
    started = Platform(
        {
            "BRAID_HOME": str(home),
            "BRAID_DEFINITIONS": str(definitions),
            "BRAID_KAFKA_PORT": str(free_port()),
            "BRAID_KAFKA_CONTROLLER_PORT": str(free_port()),
            "BRAID_HEALTH_PORT": str(free_port()),
            "BRAID_SERVE_PORT": str(free_port()),
            "BRAID_SPARK_MASTER": "local[2]",
            "BRAID_SPARK_MEMORY": "1g",
            "BRAID_SPARK_UI_PORT": str(free_port()),
            "BRAID_EPOCH": "2 seconds",
        }
    )
    yield started
    started.up.terminate()
    started.up.wait(150)
    # A test that failed half-way may have left the broker to itself.
    subprocess.run([*BRAID, "broker", "stop"], env=started.environment, check=False)


def produce(platform: Platform, seed: int) -> None:
    platform.run("produce", "--events", str(EVENTS), "--seed", str(seed), "--malformed", "0.02")


@pytest.mark.soak
def test_a_killed_engine_comes_back_and_a_stop_leaves_nothing_lost_and_nobody_behind(
    platform: Platform,
) -> None:
    until(lambda: platform.child("broker")["state"] == "running")
    produce(platform, seed=1)
    until(lambda: platform.streamed() > 0)
    with urllib.request.urlopen(platform.health, timeout=10) as answer:
        assert json.loads(answer.read())["healthy"] is True

    engine, restarts = platform.process("engine"), platform.child("engine")["restarts"]
    assert engine is not None
    assert engine["spark_ui"] == f"http://127.0.0.1:{platform.environment['BRAID_SPARK_UI_PORT']}"
    assert f"Spark's pages of engine: {engine['spark_ui']}" in platform.run("status")
    assert platform.answers(f"{engine['spark_ui']}/jobs/")
    listening = {
        one.laddr.ip.removeprefix("::ffff:")
        for process in psutil.Process(engine["pid"]).children(recursive=True)
        for one in process.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    os.kill(engine["pid"], signal.SIGKILL)
    produce(platform, seed=2)
    until(lambda: platform.child("engine")["restarts"] > restarts)
    until(lambda: platform.child("engine")["state"] == "running" and platform.streamed() > 0)

    assert platform.child("serving")["state"] == "running"
    with urllib.request.urlopen(f"{platform.api}/views", timeout=10) as answer:
        assert json.loads(answer.read())["views"][0]["version"] == 1

    children = psutil.Process(platform.up.pid).children(recursive=True)
    assert children
    platform.up.send_signal(signal.SIGTERM)
    assert platform.up.wait(150) == 0
    _, left = psutil.wait_procs(children, timeout=30)
    assert left == []
    assert json.loads(platform.run("status", "--json"))["processes"] == []
    platform.run("broker", "start")
    assert json.loads(platform.run("ledger", "requests", "--json"))["balanced"] is True


@pytest.mark.soak
def test_a_finished_day_is_served_the_same_while_everything_runs(platform: Platform) -> None:
    """Generator, ingest, stream and a restatement all run; a thousand reads of the day have one total."""
    until(lambda: platform.child("serving")["state"] == "running")
    truth = platform.home / "truth.json"
    platform.run(
        "produce", "--events", "3000", "--days", "1", "--start", "2024-03-08", "--late", "0.2", "--duplicates", "0.05",
        "--truth", str(truth),
    )  # fmt: skip
    question = f"{platform.api}/views/page_traffic?start=2024-03-08&end=2024-03-10&grain=1+day&group="

    def day() -> tuple[int, str]:
        with urllib.request.urlopen(question, timeout=30) as answer:
            found = json.loads(answer.read())
        total = next(
            (row["hits"] for row in found["rows"] if row["window_start"].startswith("2024-03-08")), 0
        )
        return total, str(found["provenance"]["base_through"])

    want = sum(
        row["hits"] for row in json.loads(truth.read_text())["page_traffic"] if row["day"] == "2024-03-08"
    )
    until(lambda: platform.answers(question) and day()[0] == want)
    live = [
        *BRAID,
        "produce",
        "--events",
        "20000",
        "--days",
        "2",
        "--start",
        "2024-03-11",
        "--rate",
        "200",
        "--seed",
        "2",
    ]
    generator = subprocess.Popen(
        live, env=platform.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    restating = subprocess.Popen(
        [*BRAID, "batch", "run", "--day", "2024-03-08", "--force"],
        env=platform.environment,
        stdout=subprocess.DEVNULL,
    )
    seen = []
    while len(seen) < 1000 or restating.poll() is None:
        seen.append(day())
    generator.terminate()
    generator.wait()
    assert restating.wait() == 0
    assert {total for total, _ in seen} == {want}
    assert len({cuts for _, cuts in seen}) > 1, "the day was not published while it was read"
