"""What the machine lacks is said in one sentence, before anything is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from braid.infra.preflight import check_disk, check_java, check_python, java_major

SCRIPT = Path(__file__).parents[2] / "infra" / "preflight.py"


def fake_java(folder: Path, version: str) -> Path:
    """A JAVA_HOME whose java claims to be `version`."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("text", "major"),
    [('version "17.0.15"', 17), ('version "1.8.0_402"', 8), ('version "21" 2023', 21), ("no idea", None)],
)
def test_the_major_version_is_read_from_old_and_new_numbering(text: str, major: int | None) -> None:
    assert java_major(text) == major


def test_java_home_that_points_at_nothing_is_named() -> None:
    check = check_java({"JAVA_HOME": "/nowhere", "PATH": ""})
    assert not check.ok
    assert "JAVA_HOME=/nowhere" in check.detail


def test_a_wrong_jdk_is_named_with_the_one_that_is_needed(tmp_path: Path) -> None:
    check = check_java({"JAVA_HOME": str(fake_java(tmp_path, "1.8.0_402")), "PATH": ""})
    assert not check.ok
    assert "Java 8" in check.detail
    assert "17" in check.fix


def test_an_old_python_is_refused() -> None:
    assert not check_python((3, 9, 2)).ok


def test_too_little_disk_is_refused_with_the_numbers(tmp_path: Path) -> None:
    check = check_disk(str(tmp_path / "not" / "there" / "yet"), needed_gib=10**9)
    assert not check.ok
    assert "GiB free" in check.detail


def test_the_script_says_one_sentence_and_exits_with_2(tmp_path: Path) -> None:
    environment = {"JAVA_HOME": "/nowhere", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Braid cannot be set up: no java found")
    assert "Traceback" not in done.stderr
