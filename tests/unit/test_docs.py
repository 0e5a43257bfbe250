"""The documents say what is so: commands, settings, fields, links and examples are checked against the code."""

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import braid
from braid import Lookup, Source, View
from braid.events import log_ddl
from braid.settings import PREFIX, Settings
from examples.weblog import requests

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
# What stands between backticks or in a shell's fence and begins with the command's name.
INLINE = re.compile(r"(?<!`)`(braid [^`\n]+)`")


class Fence(NamedTuple):
    page: str
    kind: str
    body: str


@cache
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences(page: Path) -> Iterator[Fence]:
    for found in FENCE.finditer(text_of(page)):
        body = re.sub(rf"^{found['indent']}", "", found["body"], flags=re.MULTILINE)
        yield Fence(name_of(page), found["info"].split(" ")[0], body)


def fences_of(*kinds: str) -> list[Fence]:
    return [fence for page in PAGES for fence in fences(page) if fence.kind in kinds]


def shown_commands() -> list[tuple[str, str]]:
    """(page, command) of everything that a reader could type."""
    found = []
    for page in PAGES:
        found += [(name_of(page), command) for command in INLINE.findall(FENCE.sub("", text_of(page)))]
        for fence in fences(page):
            lines = fence.body.splitlines()
            if fence.kind == "console":
                lines = [line[2:] for line in lines if line.startswith("$ ")]
            if fence.kind in ("console", "bash", "sh"):
                found += [(name_of(page), line) for line in lines if line.startswith("braid ")]
    return found


def complaint(command: str) -> str | None:
    """What is wrong with a command line, by the tree of commands; None if nothing is."""
    for part in re.split(r"&&|\|", command):
        words = shlex.split(part.strip(), comments=True)
        here = next(found for path, found in reference().commands() if path == ("braid",))
        rest = words[1:]
        while rest and rest[0] in getattr(here, "commands", {}):
            here = here.commands[rest.pop(0)]
        if reference().is_group(here):
            # Only the quarantine has a command that may be left out.
            if words[1:2] != ["quarantine"]:
                if rest and rest[0] != "--help" and rest[0] != "COMMAND":
                    return f"{rest[0]!r} is not a command"
                continue
            here = here.commands["show"]
        if problem := wrong_options(here, rest):
            return problem
    return None


def wrong_options(command: Any, words: list[str]) -> str | None:
    options = {name: one for one in reference().options_of(command) for name in one.opts}
    values, plain = iter(words), 0
    for word in values:
        if not word.startswith("--"):
            plain += 1
        elif word not in (*options, "--help"):
            return f"there is no option {word}"
        elif word in options and not options[word].is_flag:
            # An option that is only named, as in "`braid quarantine requeue --reason` takes ...", has no value.
            next(values, None)
    arguments = reference().arguments_of(command)
    if plain > len(arguments) and not any(one.nargs == -1 for one in arguments):
        return f"there are {plain} arguments and {len(arguments)} are known"
    return None


def test_there_are_commands_to_check() -> None:
    assert len(shown_commands()) > 50


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
    named = set(re.findall(rf"\b{PREFIX}([A-Z][A-Z_]+)\b", text_of(page)))
    assert {name.lower() for name in named} <= set(Settings.model_fields)


@pytest.mark.parametrize("kind", [Source, View, Lookup])
def test_every_field_of_a_definition_is_documented(kind: Any) -> None:
    page = text_of(DOCS / "reference" / "definitions.md")
    section = page.split(f"\n## {kind.__name__}\n")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(documented) == sorted(field.name for field in fields(kind))


def test_every_measure_window_and_expectation_is_documented() -> None:
    names = ("reference/measures.md", "reference/windows.md", "how-to/gate-a-day.md")
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
        for name in re.findall(r"\bbraid_(?:process|child|query)_\w+", text_of(page)):
            assert f"| `{name}` |" in known, f"{name} in {name_of(page)}"


def test_every_alert_of_the_runbooks_has_its_section_with_commands_and_a_remedy() -> None:
    page = text_of(DOCS / "operations" / "runbooks.md")
    alerts = re.findall(r"^\| \[[^]]+\]\(#([\w-]+)\)", page, re.MULTILINE)
    sections = {
        section.split("\n")[0].lower().replace(" ", "-"): section for section in page.split("\n## ")[1:]
    }
    assert len(alerts) == 10
    assert list(sections) == alerts
    for section in sections.values():
        assert "**Symptom**" in section
        assert "```bash\nbraid " in section
        assert re.search(r"^\|.*\| do \|$", section, re.MULTILINE)
