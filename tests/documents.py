"""The documents as tests read them: their pages, what is fenced in them, and whether a command exists."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
# What stands between backticks or in a shell's fence and begins with the command's name.
INLINE = re.compile(r"(?<!`)`((?:braid|make|python -m|python docs/) ?[^`\n]+)`")
SHELLS = ("console", "bash", "sh")


class Fence(NamedTuple):
    page: str
    kind: str
    body: str


def module_at(name: str) -> ModuleType:
    """A program of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def reference() -> ModuleType:
    """The program that writes the generated pages: it knows every command."""
    return module_at("generate")


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


def typed(fence: Fence) -> list[str]:
    """The commands of a shell's fence, each on one line; of a console's, what stands behind the prompts."""
    without_files = re.sub(r"(<<'?(\w+)'?)\n.*?^\2$", r"\1", fence.body, flags=re.MULTILINE | re.DOTALL)
    lines = re.sub(r"\\\n\s*", "", without_files).splitlines()
    if fence.kind == "console":
        return [line[2:] for line in lines if line.startswith("$ ")]
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def shown_commands() -> list[tuple[str, str]]:
    """(page, command) of everything that a reader could type."""
    found = []
    for page in PAGES:
        found += [(name_of(page), command) for command in INLINE.findall(FENCE.sub("", text_of(page)))]
        found += [
            (name_of(page), command)
            for fence in fences(page)
            if fence.kind in SHELLS
            for command in typed(fence)
        ]
    return found


def simple_commands(line: str) -> Iterator[list[str]]:
    """The words of each command of a line, without what is redirected and the variables that are set before it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    redirected = False
    for word in [*lexer, ";"]:
        if set(word) <= set("&|;"):
            if words:
                yield words
            words = []
        elif set(word) <= set("<>"):
            redirected = True
        elif redirected:
            redirected = False
        elif words or not re.match(r"\w+=", word):
            words.append(word)


def complaint(line: str) -> str | None:
    """What is wrong with a line for the shell; None if nothing is."""
    found = (one for words in simple_commands(line) if (one := _wrong(words[0], words[1:])))
    return next(found, None)


def _wrong(program: str, words: list[str]) -> str | None:
    """Braid's own commands, make's targets and Python's modules and files are known; other programs are others'."""
    if program == "braid":
        return wrong_command(words)
    if program == "make" and words:
        targets = re.findall(r"^([\w-]+):", text_of(ROOT / "Makefile"), re.MULTILINE)
        return None if words[0] in targets else f"make has no target {words[0]!r}"
    if program.endswith(("python", "python3")) and words:
        name = words[1] if words[0] == "-m" else words[0]
        path = ROOT / (name if name.endswith(".py") else name.replace(".", "/") + ".py")
        ours = name.split(".")[0].split("/")[0] in ("bench", "docs", "braid", "infra", "examples")
        return f"there is no {name}" if ours and not path.exists() else None
    return None


def wrong_command(rest: list[str]) -> str | None:
    """What is wrong with the words behind `braid`, by the tree of commands."""
    here = next(found for path, found in reference().commands() if path == ("braid",))
    first = rest[:1]
    while rest and rest[0] in getattr(here, "commands", {}):
        here, rest = here.commands[rest[0]], rest[1:]
    if reference().is_group(here):
        # Only the quarantine has a command that may be left out.
        if first != ["quarantine"]:
            wrong = rest and rest[0] not in ("--help", "COMMAND")
            return f"{rest[0]!r} is not a command" if wrong else None
        here = here.commands["show"]
    return wrong_options(here, rest)


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
