"""The tutorial, typed in by a newcomer: every command exits as it says and prints what it shows."""

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
FENCE = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$', re.MULTILINE | re.DOTALL
)
SHELL_KINDS = ("console", "bash")
# A busy machine with two cores takes a minute for what an idle one does in ten seconds.
TIMEOUT = 300


class Step(NamedTuple):
    """A command with the output and the exit code that the tutorial shows."""

    command: str
    shown: str
    code: int


class Page(NamedTuple):
    """A file to write, or a change to one that is there."""

    name: str
    kind: str
    text: str


def steps() -> Iterator[Step | Page]:
    """What the tutorial asks for, in order. Fences of kind `sh` are the set-up, which this test stands on."""
    for fence in FENCE.finditer(TUTORIAL.read_text(encoding="utf-8")):
        if fence["title"]:
            yield Page(fence["title"], fence["kind"], fence["body"])
        elif fence["kind"] in SHELL_KINDS:
            yield from _commands(fence["body"])


def _commands(session: str) -> Iterator[Step]:
    """Splits "$ command" and the lines below it; "$ echo $?" says how the command before it exits."""
    pairs = [part.partition("\n") for part in re.split(r"^\$ ", session, flags=re.MULTILINE) if part]
    for number, (command, _, shown) in enumerate(pairs):
        if command != "echo $?":
            asked = pairs[number + 1 : number + 2]
            code = int(asked[0][2]) if asked and asked[0][0] == "echo $?" else 0
            yield Step(command, shown, code)


def write(folder: Path, page: Page) -> None:
    file = folder / page.name
    if page.kind != "diff":
        file.write_text(page.text)
        return
    lines = page.text.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
    assert old in file.read_text(), f"{page.name} does not have the lines that the tutorial changes"
    file.write_text(file.read_text().replace(old, new))


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
        "COLUMNS": "100",
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
    run = 0
    for step in steps():
        if isinstance(step, Page):
            write(folder, step)
            continue
        done = subprocess.run(
            ["bash", "-c", step.command],
            cwd=folder, env=environment, timeout=TIMEOUT, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == step.code, f"$ {step.command}\n{done.stdout}"
        assert agrees(step.shown, done.stdout), f"$ {step.command}\n{done.stdout}\nbut it shows\n{step.shown}"
        run += 1
    assert run > 10


def test_output_that_differs_from_the_tutorial_is_noticed() -> None:
    assert agrees("│ 1 │ 652 │\n...\nbalanced\n", "noise\n│ 1   │ 652 │\nmore\nbalanced\n")
    assert not agrees("balanced\n", "balanced\nbut not quite\n")
    assert not agrees("accepted 1937\n...\n", "accepted 1936\n")
