"""docs/map.md is true: its rooms, who imports whom, where each idea lives, and an event's way through the functions."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.product import ROOT, importers, modules

PAGE = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ENOUGH_AT_THE_FIRST_GUESS = 27


def rows(heading: str) -> list[list[str]]:
    """The rows of the table under a heading, a text for each cell."""
    part = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[1:]]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


ROOMS = {named(row[0])[0]: set(named(row[2])) for row in rows("Rooms")}
IDEAS = {row[0]: (named(row[1])[0], named(row[2])[0]) for row in rows("Thirty ideas and more")}
WAY = [name for row in rows("The way of one event") for name in named(row[1])]


def room_of(path: str) -> str:
    """The room of a module: the nearest one above it that the page names."""
    folder = Path(path).parent if Path(path).suffix else Path(path)
    inside = (path, *(str(each) for each in (folder, *folder.parents)))
    return next(name for name in inside if name in ROOMS)


def test_every_folder_of_modules_is_a_room_on_the_map() -> None:
    assert {str(Path(path).parent) for path in modules()} - {"."} <= ROOMS.keys()
    assert all((ROOT / room).exists() for room in ROOMS)


def test_a_room_imports_only_what_the_map_says() -> None:
    strangers = {
        f"{importer} -> {imported}"
        for imported, users in importers().items()
        for importer in users
        if room_of(importer) != room_of(imported) and room_of(imported) not in ROOMS[room_of(importer)]
    }
    assert not strangers


def test_a_room_may_import_nothing_that_it_does_not() -> None:
    used: dict[str, set[str]] = {room: set() for room in ROOMS}
    for imported, users in importers().items():
        for importer in users:
            used[room_of(importer)].add(room_of(imported))
    assert {room: allowed - used[room] for room, allowed in ROOMS.items() if allowed - used[room]} == {}


@pytest.mark.parametrize("idea", IDEAS)
def test_an_idea_lives_where_the_map_says(idea: str) -> None:
    assert (ROOT / IDEAS[idea][1]).exists()


def test_nearly_every_idea_is_where_a_new_reader_looks_first() -> None:
    at_once = [idea for idea, (tried, lives) in IDEAS.items() if tried == lives]
    assert len(IDEAS) >= 30
    assert len(at_once) - (len(IDEAS) - 30) >= ENOUGH_AT_THE_FIRST_GUESS


@cache
def functions(path: str) -> set[str]:
    """`function` and `Class.method` of a module."""
    found = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("step", WAY)
def test_the_way_of_an_event_goes_through_functions_that_are_there(step: str) -> None:
    path, _, name = step.partition(":")
    assert name in functions(path)


def test_the_map_counts_the_modules_on_the_way_of_an_event() -> None:
    crossed = len({step.partition(":")[0] for step in WAY})
    assert f"crosses {crossed} modules" in PAGE


def test_every_word_of_the_glossary_says_where_it_lives() -> None:
    lines = [line for line in GLOSSARY.splitlines() if line.startswith("| **")]
    for line in lines:
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        assert len(cells) == 3, line
        assert all((ROOT / path).exists() for path in named(cells[2])), line
        assert named(cells[2]), line
