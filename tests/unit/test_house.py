"""The house's own rules: one word is one thing, rooms are small, and a module says what is in it."""

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("braid", "batch_layer", "speed_layer", "serving_layer", "infra", "examples", "bench", "dags")
MODULES = sorted(file for top in PRODUCT for file in (ROOT / top).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SIDE_BY_SIDE = 14
LINES = 250
# What is longer, and why it is not two modules.
LONGER = {
    "bench/serving.py": "a benchmark is one program, read from its top to its end",
    "braid/define/view.py": "a view is checked whole: each rule needs the names that the others know",
    "braid/runtime/settings.py": "all settings are one list",
}
HEAVY = ("duckdb", "pandas", "pyarrow", "pyspark")


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def public_classes(text: str) -> Iterator[str]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def named_tests(text: str) -> list[str]:
    """Test modules that a program imports, or that stand in a text which is to be run."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [
                word for word in node.value.split() if word.startswith("tests.") or word.endswith(".py")
            ]
    return [name for name in found if any(part.startswith("test_") for part in name.split("."))]


def first_sentence(text: str) -> str | None:
    """The first line of a module's docstring, if it is a whole sentence."""
    line = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return line if line.endswith((".", "?")) and " " in line else None


def test_no_two_public_classes_have_one_name() -> None:
    places = defaultdict(list)
    for file in MODULES:
        for name in public_classes(file.read_text()):
            places[name].append(name_of(file))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_room_has_more_modules_than_a_reader_can_look_over() -> None:
    rooms = defaultdict(list)
    for file in MODULES:
        if file.name != "__init__.py":
            rooms[name_of(file.parent)].append(file.name)
    assert {room: len(found) for room, found in rooms.items() if len(found) > SIDE_BY_SIDE} == {}


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_module_begins_with_a_sentence_that_says_what_is_in_it(module: Path) -> None:
    assert first_sentence(module.read_text())


@pytest.mark.parametrize(
    "text", ["", "import os\n", '"""Helpers"""\n', '"""Helpers."""\n', '"""A sentence\n\nthat goes on."""\n']
)
def test_the_check_of_sentences_can_fail(text: str) -> None:
    assert first_sentence(text) is None


def test_a_module_that_is_longer_than_a_few_screens_has_a_reason() -> None:
    longer = {name_of(file) for file in MODULES if len(file.read_text().splitlines()) > LINES}
    assert longer == set(LONGER)


@pytest.mark.parametrize("test", TESTS, ids=name_of)
def test_no_test_imports_a_test(test: Path) -> None:
    assert named_tests(test.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "from tests.unit.{} import complaint",
        "from tests.unit import {}",
        "import tests.unit.{}",
        "define('from tests.unit.{} import traffic')",
        "spec_from_file_location('any', folder / '{}.py')",
    ],
)
def test_the_check_of_tests_can_fail(text: str) -> None:
    assert named_tests(text.format("test" + "_docs")) != []


def by_a_general_name(text: str) -> list[str]:
    """Imports of what is installed below a name of ours by the name of its folder, which only a checkout has."""
    names = ("infra", "examples", "dags")
    nodes = list(ast.walk(ast.parse(text)))
    found = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    found += [one.name for node in nodes if isinstance(node, ast.Import) for one in node.names]
    return [name for name in found if name.partition(".")[0] in names]


@pytest.mark.parametrize("file", [*MODULES, *TESTS], ids=name_of)
def test_what_is_installed_below_our_name_is_imported_by_it(file: Path) -> None:
    assert by_a_general_name(file.read_text()) == []


@pytest.mark.parametrize(
    "text", ["import infra", "from infra.jars import fetch", "import examples.words as w"]
)
def test_the_check_of_general_names_can_fail(text: str) -> None:
    assert by_a_general_name(text) != []


@pytest.mark.parametrize("arguments", [("views",), ("--help",)], ids=" ".join)
def test_a_quick_command_imports_nothing_heavy(arguments: tuple[str, ...], tmp_path: Path) -> None:
    program = f"import sys\nfrom braid.cli import run\ntry:\n    run({list(arguments)})\nexcept SystemExit as end:\n"
    program += (
        f"    code = end.code\nprint(code, *sorted(set({HEAVY}) & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "0", done.stderr
