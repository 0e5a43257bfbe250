"""Definitions load from a module or a file, and what is wrong there is named with its line."""

import subprocess
import sys
from pathlib import Path

import pytest

from braid.define.loading import load_definitions
from braid.errors import DefinitionError

HEADER = """from braid import Lookup, Source, View, count
events = Source(name="events", kafka_topic="events", schema="time timestamp, host string", event_time="time")
"""
OTHER_VIEW = 'other = View(name="hosts", source=events, measures={"n": count()})\n'
VIEW = 'hosts = View(name="hosts", source=events, keys=("host",), measures={"n": count()})\n'


def written(folder: Path, text: str) -> str:
    file = folder / "mine.py"
    file.write_text(text)
    return str(file)


def test_the_example_loads_as_a_module_and_as_a_file() -> None:
    by_module = load_definitions("braid.examples.weblog")
    by_file = load_definitions(str(sys.modules["braid.examples.weblog"].__file__))
    assert by_module == by_file
    assert list(by_module.sources) == ["requests"]
    assert list(by_module.views) == ["page_traffic", "visits", "daily_pages"]


def test_sources_and_looked_up_views_are_found_through_the_views_that_need_them(tmp_path: Path) -> None:
    text = (
        HEADER
        + VIEW
        + (
            'last_view = View(name="final", source=events, keys=("n",), measures={"x": count()},\n'
            '    enrich=Lookup(table=hosts, on="host", columns=("n",)))\ndel events, hosts\n'
        )
    )
    found = load_definitions(written(tmp_path, text))
    assert list(found.sources) == ["events"]
    assert list(found.views) == ["hosts", "final"]


def test_a_name_that_is_not_there_is_answered_with_the_one_that_was_meant(tmp_path: Path) -> None:
    found = load_definitions(written(tmp_path, HEADER + VIEW))
    assert found.view("hosts").source is found.source("events")
    with pytest.raises(DefinitionError, match=r"no view 'host'. Did you mean 'hosts'\? The views are: hosts"):
        found.view("host")
    with pytest.raises(DefinitionError, match=r"no source 'x'. The sources are: events"):
        found.source("x")


def test_a_file_that_was_changed_is_read_again_with_what_it_imports(tmp_path: Path) -> None:
    text = "from helper import NAME\n" + HEADER + VIEW.replace('"hosts"', "NAME")
    for name in ("aa", "bb"):
        (tmp_path / "helper.py").write_text(f"NAME = {name!r}")
        assert list(load_definitions(written(tmp_path, text)).views) == [name]
    assert "helper" not in sys.modules
    assert str(tmp_path) not in sys.path


def test_one_value_under_two_names_is_one_definition(tmp_path: Path) -> None:
    assert len(load_definitions(written(tmp_path, HEADER + VIEW + "same = hosts\n")).views) == 1


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        (HEADER + "def broken(:\n", "mine.py:3", "invalid syntax"),
        (HEADER + VIEW.replace('("host",)', '("hots",)'), "mine.py:3", "Did you mean 'host'"),
        (HEADER + "x = 1 / 0\n", "mine.py:3", "ZeroDivisionError: division by zero"),
        (HEADER + "import no_such_module_here\n", "mine.py:3", "no_such_module_here"),
        (HEADER + "raise SystemExit(3)\n", "mine.py:3", "SystemExit"),
        (HEADER + "Source(nam='x')\n", "mine.py:3", "unexpected keyword argument 'nam'"),
        (HEADER + VIEW + OTHER_VIEW, "mine.py", "two different views"),
        (
            HEADER + HEADER.replace("events =", "other =").replace("host s", "h s"),
            "mine.py",
            "two different sources",
        ),
        ("x = 1\n", "mine.py", "defines no source and no view"),
        ("", "mine.py", "set BRAID_DEFINITIONS"),
    ],
)
def test_an_error_in_the_file_is_one_sentence_with_its_place(
    tmp_path: Path, text: str, place: str, reason: str
) -> None:
    with pytest.raises(DefinitionError) as refusal:
        load_definitions(written(tmp_path, text))
    message = str(refusal.value)
    assert place in message
    assert reason in message
    assert "Traceback" not in message


def test_a_file_or_module_that_is_not_there_is_refused_with_what_to_set(tmp_path: Path) -> None:
    for setting in (
        str(tmp_path / "none.py"),
        "no_such_module_here",
        "braid.examples.none",
        "..",
        str(tmp_path),
    ):
        with pytest.raises(DefinitionError, match="BRAID_DEFINITIONS") as refusal:
            load_definitions(setting)
        assert setting in str(refusal.value)


def test_an_error_in_a_module_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_views_module.py").write_text(HEADER + "oops\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DefinitionError, match=r"broken_views_module:3: NameError: name 'oops'"):
        load_definitions("broken_views_module")


def test_a_file_that_names_the_examples_as_they_were_called_before_is_read(tmp_path: Path) -> None:
    """In a process of its own, in a folder from which the checkout cannot be imported."""
    file = tmp_path / "definitions.py"
    file.write_text("from examples.weblog import page_traffic\n")
    read = f"from braid.define.loading import load_definitions as load; print(*load({str(file)!r}).views)"
    done = subprocess.run(
        [sys.executable, "-c", read], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "page_traffic\n", done.stderr
