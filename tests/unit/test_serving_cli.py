"""`braid query` and `braid tail` on small tables: tables for people, JSON for pipes, and a quiet end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from braid import tumbling
from braid.cli.serving import query
from braid.errors import BraidError
from braid.runtime.settings import Settings, current_settings
from tests.serving import MIDNIGHT, MINUTE, Event, Tables, view_of

COMMAND = "import sys; from braid.cli import run; run(sys.argv[1:])"


@pytest.fixture
def tables(home: Path) -> Tables:
    tables = Tables(Settings(home=str(home)), view_of(tumbling("1 hour")))
    tables.deploy()
    tables.append([Event(MIDNIGHT, "[bold]a", 2, MIDNIGHT), Event(MIDNIGHT, None, None, MIDNIGHT)])
    tables.append([Event(MIDNIGHT + 90 * MINUTE, "b", 3, MIDNIGHT + MINUTE)])
    return tables


def run(*arguments: Any) -> Result:
    app = typer.Typer()
    app.command()(query.query)
    app.command()(query.tail)
    current_settings.cache_clear()
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@contextmanager
def following(home: Path, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """`braid tail` as a process of its own."""
    environment = os.environ | {"BRAID_HOME": str(home)}
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "tail", "hits", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_line(process: "subprocess.Popen[str]") -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_json_has_every_number_with_its_status_and_provenance(tables: Tables) -> None:
    answer = json.loads(run("query", "hits", "--json").stdout)
    assert (answer["view"], answer["version"], answer["total"]) == ("hits", 1, 3)
    assert answer["rows"][0] == {
        "host": "[bold]a",
        "window_start": "2024-03-10T00:00:00-05:00",
        "window_end": "2024-03-10T01:00:00-05:00",
        "hits": 1,
        "total": 2,
        "most": 2,
        "_status": "final",
    }
    assert [row["host"] for row in answer["rows"]] == ["[bold]a", None, "b"]
    assert answer["provenance"]["tail_events"] == 3


def test_people_see_a_table_and_the_status_when_they_ask(tables: Tables) -> None:
    plain = run("query", "hits", "--order", "-most", "--limit", 1, "--where", "host=b").stdout
    assert "│ b " in plain
    assert "provisional" not in plain
    asked = run("query", "hits", "--status", "--limit", 1)
    assert "│ [bold]a " in asked.stdout
    assert "2 more rows" in asked.stdout
    assert "0 in the base, 3 in the tail" in asked.stdout


def test_pages_follow_each_other(tables: Tables) -> None:
    pages = [
        json.loads(run("query", "hits", "--limit", 1, "--offset", at, "--json").stdout) for at in range(3)
    ]
    assert [page["rows"][0]["host"] for page in pages] == ["[bold]a", None, "b"]


def test_a_bad_request_is_an_error_that_names_it(tables: Tables) -> None:
    failed = run("query", "hits", "--order", "-hitz")
    assert isinstance(failed.exception, BraidError)
    assert "Did you mean 'hits'?" in str(failed.exception)


@pytest.mark.parametrize(
    ("mode", "hosts"), [("updates", ["[bold]a", None, "b"]), ("final", ["[bold]a", None])]
)
def test_once_prints_what_there_is_and_stops(tables: Tables, mode: str, hosts: list[str | None]) -> None:
    lines = run("tail", "hits", "--mode", mode, "--once", "--json").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert sorted(map(str, (row["host"] for row in rows))) == sorted(map(str, hosts))
    assert {(row["_version"], row["_epoch"]) for row in rows} == {(1, "2024-03-10T05:01:00+00:00")}


def test_the_whole_table_is_one_line_and_its_newest_rows_are_kept(tables: Tables) -> None:
    (line,) = run("tail", "hits", "--mode", "complete", "--once", "--json", "--limit", 1).stdout.splitlines()
    assert [row["host"] for row in json.loads(line)["rows"]] == ["b"]
    assert (
        "2 older rows not shown" in run("tail", "hits", "--mode", "complete", "--once", "--limit", 1).stdout
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_changes_are_printed_as_they_come_until_a_signal(tables: Tables, home: Path, number: int) -> None:
    with following(home, "--json") as process:
        assert {next_line(process)["host"] for _ in range(3)} == {"[bold]a", None, "b"}
        tables.append([Event(MIDNIGHT + 90 * MINUTE, "b", 5, MIDNIGHT + 2 * MINUTE)])
        told = next_line(process)
        assert (told["host"], told["hits"], told["_change"]) == ("b", 2, "changed")
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("arguments", [("--json",), ("--mode", "complete")], ids=["json", "table"])
def test_a_closed_pipe_is_a_quiet_end(tables: Tables, home: Path, arguments: tuple[str, ...]) -> None:
    with following(home, *arguments) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        tables.append([Event(MIDNIGHT + 90 * MINUTE, "b", 5, MIDNIGHT + 2 * MINUTE)])
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
