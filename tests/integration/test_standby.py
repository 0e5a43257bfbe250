"""A standby runs commands for others with the Spark that it has: what they see is what they would have seen."""

import os
import pty
import signal
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
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


class Terminal:
    """What a person looks at: so many columns, with colours."""

    def __init__(self, columns: int) -> None:
        self.near, self.far = pty.openpty()
        termios.tcsetwinsize(self.far, (40, columns))
        self.shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # It ends with an error once nobody has the other side open.
        with suppress(OSError):
            while text := os.read(self.near, 1 << 16):
                self.shown += text

    def text(self) -> str:
        """All that was shown, once nobody writes to it any more."""
        os.close(self.far)
        self._reader.join(30)
        os.close(self.near)
        return self.shown.decode()


class AtTerminal:
    """A command that a person typed. Output and errors are shown apart, so that a bar is not among the rows."""

    def __init__(self, office: "Office", columns: int, *arguments: str, **changed: str) -> None:
        self.output, self.errors = Terminal(columns), Terminal(columns)
        environment = os.environ | office.environment | {"TERM": "xterm-256color"} | changed
        for name in ("NO_COLOR", "COLUMNS", "FORCE_COLOR", "COLORTERM"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [BRAID, *arguments], env=environment,
            stdin=self.output.far, stdout=self.output.far, stderr=self.errors.far,
        )  # fmt: skip

    def ended(self) -> tuple[int, str, str]:
        code = self.process.wait(120)
        return code, self.output.text(), self.errors.text()


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


def test_at_a_terminal_it_looks_as_if_it_had_been_run_there(office: Office) -> None:
    office.renew("by_page")
    taken = office.taken()
    for number, columns in enumerate((40, 160), 1):
        code, shown, errors = AtTerminal(office, columns, "batch", "run").ended()
        until(lambda number=number: office.taken() == taken + number)
        # Its settings are not the standby's.
        alone = AtTerminal(office, columns, "batch", "run", BRAID_LOG_LEVEL="warning").ended()
        assert (code, shown) == alone[:2]
        assert code == 0
        assert "\x1b[" in shown, "a table has colours"
        for bar in (errors, alone[2]):
            assert "computing days" in bar
            assert bar.rindex("\x1b[?25h") > bar.rindex("\x1b[?25l"), "the cursor is there again"
    assert "\x1b[" not in office.run("batch", "run").stdout, "and for programs there are none"
    until(lambda: office.taken() == taken + 3)


def test_a_person_does_not_wait_for_the_commands_of_others(office: Office) -> None:
    office.renew("by_page", WAITING)
    taken = office.taken()
    Path("block").touch()
    Path("reading").unlink(missing_ok=True)
    first = subprocess.Popen([BRAID, "batch", "run"], env=os.environ | office.environment)
    until(Path("reading").exists)
    Path("reading").unlink()
    person = AtTerminal(office, 80, "batch", "run")
    until(Path("reading").exists)
    assert first.poll() is None, "the standby is busy, and the person's command reads its definitions"
    Path("block").unlink()
    assert person.ended()[0] == 0
    assert first.wait(120) == 0
    until(lambda: office.taken() == taken + 1)
    # What the person did not wait for is not done later, and costs the standby nothing.
    started = office.started()
    assert office.run("batch", "run").returncode == 0
    assert (office.taken(), office.started()) == (taken + 2, started)


@pytest.mark.soak
def test_ctrl_c_ends_what_is_done_for_a_person(office: Office) -> None:
    office.renew("by_page", WAITING)
    started, java = office.started(), office.java()
    Path("block").touch()
    Path("reading").unlink()
    person = AtTerminal(office, 80, "batch", "run")
    until(Path("reading").exists)
    person.process.send_signal(signal.SIGINT)
    code, _, errors = person.ended()
    assert code == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert not psutil.pid_exists(java[0])
    Path("block").unlink()
    until(lambda: office.started() > started)


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
