"""A standby runs commands for others with the Spark that it has: what they see is what they would have seen."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from braid.cli.platform.forward import address
from braid.cli.platform.standby import STALE
from braid.runtime.settings import Settings
from tests.faults.stage import BRAID, Command
from tests.waiting import until

DEFINITIONS = """\
from braid import Source, View, count
clicks = Source(name="clicks", kafka_topic="clicks", schema="time timestamp, page string", event_time="time")
by_page = View(name="{view}", source=clicks, keys=("page",), measures={{"hits": count()}})
"""
# Says that it is being read, and goes on when it may.
WAITING = """\
import pathlib, time
pathlib.Path("reading").touch()
while pathlib.Path("block").exists():
    time.sleep(0.01)
"""


class Office:
    """A home with a standby, and commands that are given to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.define("by_page")
        self.environment = {
            "BRAID_HOME": str(folder / "home"),
            "BRAID_DEFINITIONS": "office_definitions",
            "BRAID_SPARK_MASTER": "local[1]",
            "BRAID_SPARK_MEMORY": "1g",
        }
        os.chdir(folder)
        self.standby = Command("standby", environment=self.environment)
        self.standby.wait_for("standby started")

    def define(self, view: str, before: str = "") -> None:
        (self.folder / "office_definitions.py").write_text(before + DEFINITIONS.format(view=view))

    def run(self, *arguments: str, **changed: str) -> "subprocess.CompletedProcess[str]":
        environment = os.environ | self.environment | changed
        return subprocess.run(
            [BRAID, *arguments], env=environment, capture_output=True, text=True, check=False
        )

    def renew(self, view: str, before: str = "") -> None:
        """Definitions that a standby, which has just started, has not read yet; their file is new to it each time."""
        started, stale = self.started(), self.standby.said.count(STALE)
        # One that had read nothing reads it at the first command, and finds it changed at the second.
        for _ in range(2):
            self.define(view, before)
            self.run("batch", "run")
            if self.standby.said.count(STALE) > stale:
                break
        until(lambda: self.started() > started)

    def started(self) -> int:
        return self.standby.said.count("standby started")

    def taken(self) -> int:
        """How many commands the standby has run."""
        return sum("  exit=" in line for line in self.standby.lines)

    def java(self) -> list[int]:
        children = psutil.Process(self.standby.process.pid).children(recursive=True)
        return [child.pid for child in children if child.name() == "java"]


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    before = Path.cwd()
    made = Office(tmp_path_factory.mktemp("office"))
    yield made
    made.standby.stop()
    os.chdir(before)


def test_a_command_ends_as_it_would_have_ended_by_itself(office: Office) -> None:
    taken = office.taken()
    given = office.run("batch", "run", "--view", "nonsense")
    assert office.taken() == taken + 1
    alone = office.run("batch", "run", "--view", "nonsense", BRAID_LOG_LEVEL="warning")
    assert office.taken() == taken + 1, "its settings are not the standby's"
    assert (given.returncode, given.stdout, given.stderr) == (2, alone.stdout, alone.stderr)
    assert "'nonsense'" in given.stderr


def test_only_the_user_may_reach_it_and_a_second_one_is_refused(office: Office) -> None:
    place = address(Settings(home=office.environment["BRAID_HOME"]))
    assert place.stat().st_mode & 0o077 == 0
    second = office.run("standby")
    assert second.returncode == 2
    assert "runs already" in second.stderr


def test_a_changed_definition_is_read_by_the_next_command(office: Office) -> None:
    office.run("batch", "run", "--view", "by_page")
    office.define("by_other")
    try:
        assert "by_other" in office.run("batch", "run", "--view", "by_page").stderr
        until(lambda: office.started() == 2)
        taken = office.taken()
        assert "by_other" in office.run("batch", "run", "--view", "by_page").stderr
        assert office.taken() == taken + 1
    finally:
        office.define("by_page")


@pytest.mark.soak
@pytest.mark.parametrize("victim", ["caller", "spark"])
def test_it_starts_anew_when_a_caller_or_its_spark_is_killed(office: Office, victim: str) -> None:
    office.renew("by_page", WAITING)
    started, java = office.started(), office.java()
    if victim == "spark":
        os.kill(java[0], signal.SIGKILL)
        assert office.run("batch", "run").returncode == 0
    else:
        Path("block").touch()
        Path("reading").unlink()
        caller = subprocess.Popen([BRAID, "batch", "run"], env=os.environ | office.environment)
        until(Path("reading").exists)
        caller.kill()
        caller.wait()
        Path("block").unlink()
    until(lambda: office.started() > started)
    assert not psutil.pid_exists(java[0])
    taken = office.taken()
    assert office.run("batch", "run").returncode == 0
    assert office.taken() == taken + 1
