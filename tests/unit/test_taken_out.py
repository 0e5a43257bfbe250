"""Every check that is said to have a test has one, and the documents say how it fails without the check."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.taken_out import ALL, BEGIN, END, PAGE, TakenOut, table

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.check)
def test_the_test_of_a_check_and_what_is_taken_out_are_there(one: TakenOut) -> None:
    file, name = one.test.split("::")
    assert f"def {name}(" in (REPOSITORY / file).read_text()
    for target, _ in one.instead:
        owner, attribute = _resolved(target)
        assert hasattr(owner, attribute), target


def _resolved(target: str) -> tuple[object, str]:
    """What has the attribute that a dotted name ends with: a module, or a class in one."""
    from importlib import import_module

    path, _, attribute = target.rpartition(".")
    try:
        return import_module(path), attribute
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(import_module(module), name), attribute


def test_the_table_in_the_documents_is_up_to_date() -> None:
    written = PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()
    assert written == table(), "`python -m tests.taken_out --write` renews the page"


@pytest.mark.soak
def test_without_its_check_each_test_fails_for_the_right_reason(tmp_path: Path) -> None:
    options = ["-p", "no:cacheprovider", f"--basetemp={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.taken_out", *options],
        check=False,
        cwd=REPOSITORY,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout
