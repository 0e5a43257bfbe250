"""The documents say what is so: commands, settings, fields, links and examples are checked against the code."""

import re
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import braid
from braid import Lookup, Source, View
from braid.examples.weblog import requests
from braid.log.events import log_ddl
from braid.runtime.settings import PREFIX, SECRETS, Settings
from tests.documents import (
    DOCS,
    FENCE,
    PAGES,
    ROOT,
    SHELLS,
    Fence,
    complaint,
    fences_of,
    name_of,
    reference,
    shown_commands,
    text_of,
    typed,
)


def test_there_are_commands_to_check() -> None:
    assert len(shown_commands()) > 50


@pytest.mark.parametrize("fence", fences_of(*SHELLS), ids=lambda fence: fence.page)
def test_what_is_typed_is_a_shells_language(fence: Fence) -> None:
    done = subprocess.run(
        ["bash", "-n"],
        input="\n".join(typed(fence)) if fence.kind == "console" else fence.body,
        check=False, text=True, capture_output=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert typed(fence), "a fence of commands has one"


@pytest.mark.parametrize(("page", "command"), sorted(set(shown_commands())))
def test_a_command_that_is_shown_exists_with_its_options(page: str, command: str) -> None:
    assert complaint(command) is None


@pytest.mark.parametrize(
    "wrong",
    [
        "braid fly",
        "braid ledger requests --no-such",
        "braid broker restart",
        "braid show one two",
        "braid log a && braid fly",
        "export A=1; BRAID_HOME=x braid fly > file",
        "braid query page_traffic --json | braid fly",
        "make fly",
        "python -m bench.fly",
        ".venv/bin/python docs/fly.py",
    ],
)
def test_the_check_of_commands_can_fail(wrong: str) -> None:
    assert complaint(wrong) is not None


@pytest.mark.parametrize("page", reference().GENERATED)
def test_what_is_generated_names_no_folder_of_the_machine_that_wrote_it(page: str) -> None:
    assert str(DOCS.parent) not in reference().renewed(page)


@pytest.mark.parametrize("page", reference().GENERATED)
def test_what_is_generated_is_up_to_date(page: str) -> None:
    assert text_of(DOCS / "reference" / page) == reference().renewed(page), "run `python docs/generate.py`"


def test_every_command_and_option_is_documented() -> None:
    page = text_of(DOCS / "reference" / "cli.md")
    for words, command in reference().commands():
        if len(words) > 1:
            assert f"\n## {' '.join(words)}\n" in page
            assert command.help, f"{' '.join(words)} has no help"
    headings = re.findall(r"^## (braid .+)$", page, re.MULTILINE)
    known = [" ".join(words) for words, _ in reference().commands()]
    assert set(headings) == set(known) - {"braid"}


def test_every_setting_is_documented_and_no_other() -> None:
    page = text_of(DOCS / "reference" / "settings.md")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page, re.MULTILINE)
    assert rows == [(f"{PREFIX}{name.upper()}", name) for name in Settings.model_fields]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_only_settings_that_exist_are_named(page: Path) -> None:
    named = {name.lower() for name in re.findall(rf"\b{PREFIX}([A-Z][A-Z_]+)\b", text_of(page))}
    assert {name for name in named if not name.startswith(SECRETS)} <= set(Settings.model_fields)


@pytest.mark.parametrize("kind", [Source, View, Lookup])
def test_every_field_of_a_definition_is_documented(kind: Any) -> None:
    page = text_of(DOCS / "reference" / "definitions.md")
    section = page.split(f"\n## {kind.__name__}\n")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(documented) == sorted(field.name for field in fields(kind))


def test_every_measure_window_sink_and_expectation_is_documented() -> None:
    names = (
        "reference/measures.md",
        "reference/windows.md",
        "reference/sinks.md",
        "reference/alerts.md",
        "reference/definitions.md",
        "how-to/gate-a-day.md",
    )
    pages = "".join(text_of(DOCS / name) for name in names)
    for name in set(braid.__all__) - {"Source", "View", "Lookup", "merged"}:
        assert re.search(rf"`{name}[`(]", pages), name


def test_every_column_of_the_log_is_documented() -> None:
    page = text_of(DOCS / "reference" / "log-table.md")
    for name in re.findall(r"`(_\w+|day)`", log_ddl(requests)):
        assert f"| `{name}` |" in page


@pytest.mark.parametrize("fence", fences_of("python"), ids=lambda fence: fence.page)
def test_an_example_in_python_runs(fence: Fence) -> None:
    exec(compile(fence.body, fence.page, "exec"), {"__name__": "example"})


@pytest.mark.parametrize("fence", fences_of("py"), ids=lambda fence: fence.page)
def test_an_example_that_needs_a_server_or_spark_is_python(fence: Fence) -> None:
    """Those of the API are run by its own tests."""
    compile(fence.body, fence.page, "exec")


@pytest.mark.parametrize("fence", fences_of("toml"), ids=lambda fence: fence.page)
def test_an_example_of_settings_is_accepted(fence: Fence) -> None:
    Settings(**tomllib.loads(fence.body))


def headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text_of(page))):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in headings(file), target


def test_every_page_can_be_reached_from_the_index() -> None:
    index = text_of(DOCS / "index.md")
    for page in DOCS.rglob("*.md"):
        if page != DOCS / "index.md":
            assert f"({page.relative_to(DOCS)})" in index


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_address_of_another_machine_is_named(page: Path) -> None:
    """Where packages come from is each machine's business."""
    hosts = re.findall(r"https?://([^/\s)`\"':]+)", text_of(page))
    assert set(hosts) <= {"127.0.0.1", "localhost", "HOST"}
    assert "index-url" not in text_of(page)


def code() -> str:
    """All code as one line, with strings that continue on the next line joined."""
    layers = ("braid", "speed_layer", "infra")
    lines = " ".join(text_of(file) for layer in layers for file in sorted((ROOT / layer).rglob("*.py")))
    return re.sub(r'"\s+f?"', "", lines)


def test_a_test_that_is_named_exists() -> None:
    tests = " ".join(text_of(file) for file in sorted((ROOT / "tests").rglob("*.py")))
    named = {(name_of(page), name) for page in PAGES for name in re.findall(r"`(test_\w+)`", text_of(page))}
    assert len(named) > 10
    for page, name in named:
        assert f"def {name}(" in tests, f"{page}: {name}"


def test_messages_in_the_operations_guide_are_those_of_the_code() -> None:
    page = text_of(DOCS / "operations" / "index.md").split("## What can go wrong")[1].split("\n\n")[2]
    messages = re.findall(r"^\| `([^`]+)`", page, re.MULTILINE)
    assert len(messages) > 10
    said = code()
    for message in messages:
        for fragment in filter(None, (part.strip() for part in message.split("..."))):
            assert fragment in said, message


def test_metrics_that_are_named_are_in_the_reference() -> None:
    known = text_of(DOCS / "reference" / "metrics.md")
    for page in PAGES:
        for name in re.findall(r"\bbraid_(?:process|child|query|serving)_\w+", text_of(page)):
            assert f"| `{name}` |" in known, f"{name} in {name_of(page)}"


def test_every_alert_of_the_runbooks_has_its_section_with_commands_and_a_remedy() -> None:
    page = text_of(DOCS / "operations" / "runbooks.md")
    alerts = re.findall(r"^\| \[[^]]+\]\(#([\w-]+)\)", page, re.MULTILINE)
    sections = {
        section.split("\n")[0].lower().replace(" ", "-"): section for section in page.split("\n## ")[1:]
    }
    assert len(alerts) == 14
    assert list(sections) == alerts
    for section in sections.values():
        assert "**Symptom**" in section
        assert "```bash\nbraid " in section
        assert re.search(r"^\|.*\| do \|$", section, re.MULTILINE)
