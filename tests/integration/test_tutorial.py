"""The tutorial, pasted in by a newcomer: every command succeeds and prints what the page shows."""

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import free_port

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
FENCE = re.compile(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
# A busy machine with two cores takes a minute for what an idle one does in ten seconds.
TIMEOUT = 300


class Step(NamedTuple):
    """What is pasted in one go, and the output that stands below it."""

    script: str
    shown: str


def steps() -> list[Step]:
    """What the tutorial asks for, in order; without the set-up, which this test stands on."""
    found: list[Step] = []
    for fence in FENCE.finditer(TUTORIAL.read_text(encoding="utf-8")):
        if fence["kind"] == "sh":
            found.append(Step(fence["body"], ""))
        elif fence["kind"] == "text":
            found[-1] = Step(found[-1].script, fence["body"])
    assert found[0].script.startswith("git clone")
    return found[1:]


def agrees(shown: str, printed: str) -> bool:
    """Whether the output ends as shown; "..." stands for anything, and a table's spaces do not count."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return not shown or doctest.OutputChecker().check_output(f"...{shown.lstrip()}", printed, flags)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A newcomer's shell, but for ports and cores that others on this machine leave free."""
    tools = Path(sys.executable).parent
    variables = os.environ | {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "BRAID_HOME": str(tmp_path / "home"),
        "BRAID_KAFKA_PORT": str(free_port()),
        "BRAID_KAFKA_CONTROLLER_PORT": str(free_port()),
        "BRAID_SPARK_MASTER": "local[2]",
        "BRAID_SPARK_MEMORY": "1g",
        "COLUMNS": "110",
        "PYTHONIOENCODING": "utf-8",
    }
    yield variables
    subprocess.run(
        [str(tools / "braid"), "broker", "stop"], env=variables, cwd=tmp_path, check=True, capture_output=True
    )


@pytest.mark.soak
def test_the_tutorial_does_what_it_says(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    for step in steps():
        done = subprocess.run(
            ["bash", "-e"],
            input=step.script, cwd=folder, env=environment, timeout=TIMEOUT, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, f"{step.script}\n{done.stdout}"
        assert agrees(step.shown, done.stdout), f"{step.script}\n{done.stdout}\nbut it shows\n{step.shown}"


def test_every_command_of_the_tutorial_has_its_output() -> None:
    found = steps()
    assert len(found) > 10
    silent = [step.script for step in found if not step.shown]
    assert [script for script in silent if re.search(r"^braid ", script, re.MULTILINE)] == []


def test_output_that_differs_from_the_tutorial_is_noticed() -> None:
    assert agrees("│ 1 │ 652 │\n...\nbalanced\n", "noise\n│ 1   │ 652 │\nmore\nbalanced\n")
    assert not agrees("balanced\n", "balanced\nbut not quite\n")
    assert not agrees("accepted 1937\n...\n", "accepted 1936\n")
