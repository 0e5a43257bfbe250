"""The layers know nothing of each other, and the linter that says so can fail."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("braid", "batch_layer", "speed_layer", "serving_layer", "infra", "examples")


def lint(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_boundaries_hold() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("batch_layer", "speed_layer"),
        ("serving_layer", "batch_layer"),
        ("braid", "speed_layer"),
        ("infra", "examples"),
    ],
)
def test_an_import_across_a_boundary_breaks_the_build(copy: Path, importer: str, imported: str) -> None:
    (copy / importer / "trespass.py").write_text(f"import {imported}\n")
    done = lint(copy)
    assert done.returncode == 1
    assert f"{importer}.trespass -> {imported}" in done.stdout
