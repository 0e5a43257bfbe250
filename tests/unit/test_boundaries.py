"""Who may import whom: the linter that says so can fail, for each of its contracts."""

import ast
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from braid.examples.stage import NAMES
from tests.product import LINKED

ROOT = Path(__file__).parents[2]
PACKAGES = ("braid", "batch_layer", "speed_layer", "serving_layer", "bench")
TRESPASSES = (
    ("batch_layer.trespass", "speed_layer"),
    ("serving_layer.trespass", "batch_layer"),
    ("braid.log.trespass", "speed_layer"),
    ("braid.infra.trespass", "braid.examples"),
    ("braid.examples.stage.trespass", "bench"),
    ("braid.examples.demo", "braid.define.view"),
    ("braid.examples.words", "braid.examples.words.play"),
    ("braid.examples.weblog.website", "pyspark"),
    ("braid.define.trespass", "pyspark"),
    ("braid.deploy.trespass", "braid.states.spark"),
    ("braid.measures.aggregates", "pyspark"),
    ("braid.produce.trespass", "braid.runtime.spark"),
    ("braid.runtime.settings", "pyspark"),
)
# Airflow brings pendulum with it; what all DAGs share stands in their own folder.
OF_DAGS = {"airflow", "pendulum", "braid_tasks", *sys.stdlib_module_names}


def lint(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def imported(text: str) -> Iterator[str]:
    """The names of the packages that a program imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says of a copy of the house in which all of them trespass."""
    copy = tmp_path_factory.mktemp("house")
    shutil.copy(ROOT / "pyproject.toml", copy)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    for importer, imports in TRESPASSES:
        place = copy.joinpath(*importer.split("."))
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        with file.open("a") as module:
            module.write(f"\nimport {imports}\n")
    done = lint(copy)
    assert done.returncode == 1, done.stdout
    return done.stdout


def test_the_boundaries_hold() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("importer", "imports"), TRESPASSES)
def test_an_import_across_a_boundary_breaks_the_build(broken: str, importer: str, imports: str) -> None:
    assert f"{importer} -> {imports} " in broken


def test_each_contract_can_be_broken(broken: str) -> None:
    assert "Contracts: 0 kept," in broken


def contract_that(begins: str) -> dict[str, Any]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (one for one in contracts if one["name"].startswith(begins))
    return dict(contract)


def test_every_room_that_the_layers_share_is_held_to_know_nothing_of_them() -> None:
    shared = {
        f"braid.{one.stem}" for one in (ROOT / "braid").iterdir() if not one.name.startswith(("_", "py."))
    }
    contract = contract_that("What the layers share")
    assert set(contract["source_modules"]) == shared - {"braid.cli", *LINKED}
    kept_from = {
        name.removesuffix(".**") for name in contract_that("A definition needs")["forbidden_modules"]
    }
    assert shared - {"braid.examples", "braid.dags"} <= kept_from


def test_every_definition_of_the_examples_is_held_to_what_braid_exports() -> None:
    contract = contract_that("A definition needs")
    modules = {
        *(f"braid.examples.{name}" for name in NAMES),
        "braid.examples.demo",
        "braid.examples.weblog.website",
    }
    assert set(contract["source_modules"]) == modules


@pytest.mark.parametrize("dag", sorted((ROOT / "dags").glob("*.py")), ids=lambda dag: dag.name)
def test_a_dag_imports_airflow_and_nothing_of_braid(dag: Path) -> None:
    assert set(imported(dag.read_text())) <= OF_DAGS


@pytest.mark.parametrize("text", ["import braid.cli", "from batch_layer.run import run", "import pandas"])
def test_the_check_of_dags_can_fail(text: str) -> None:
    assert not set(imported(text)) <= OF_DAGS
