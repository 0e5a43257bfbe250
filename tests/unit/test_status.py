"""What a process tells about itself is read whole, never mistaken for life, and fit for Prometheus."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
import typer

from braid.cli.output import print_error
from braid.cli.platform import up
from braid.errors import BraidError, CheckFailed
from braid.infra.services.health import health_server
from braid.runtime.metrics import prometheus
from braid.runtime.settings import Settings
from braid.runtime.status import (
    FRESH,
    ChildStatus,
    ProcessStatus,
    QueryStatus,
    forget,
    is_alive,
    problems,
    read_all,
    report,
    this_place,
    under_supervision,
    write,
)
from tests.conftest import Answer, free_port

SAMPLE = re.compile(r"([a-z_]+)\{((?:[a-z]+=\"(?:[^\"\\\n]|\\[\\\"n])*\",?)*)\} (\S+)")
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')
UNESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home))


@pytest.fixture
def engine() -> ProcessStatus:
    """This process, as if it were the engine."""
    now = datetime.now(UTC)
    queries = (
        QueryStatus("requests", "ingest", "running", lag_events=7, events=120, source="requests"),
        QueryStatus(
            "hits", "stream", "running", batch=3, batch_ms=250.0, rows_per_second=40.5, lag_seconds=1.5, events=100,
            late=4, revised=2, epoch=datetime(2024, 3, 8, 12, tzinfo=UTC), view="hits", source="requests", version=1,
        ),
    )  # fmt: skip
    return ProcessStatus("engine", os.getpid(), now, now, queries, place=this_place())


def supervisor(engine: ProcessStatus, *children: ChildStatus) -> ProcessStatus:
    return replace(engine, process="up", queries=(), children=children)


def dead(status: ProcessStatus) -> ProcessStatus:
    """The same, by a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return replace(status, pid=process.pid)


def parsed(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Prometheus' text format, strictly: one HELP and TYPE before a metric's samples, which stand together."""
    assert text.endswith("\n")
    samples = {}
    described: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in described
            assert next(lines) in {f"# TYPE {name} gauge", f"# TYPE {name} counter"}
            described.append(name)
            continue
        found = SAMPLE.fullmatch(line)
        assert found, line
        assert found[1] == described[-1]
        labels = frozenset(
            (name, re.sub(r"\\.", lambda escaped: UNESCAPED[escaped[0]], value))
            for name, value in LABEL.findall(found[2])
        )
        assert (found[1], labels) not in samples
        samples[found[1], labels] = float(found[3])
    return samples


def test_a_document_is_read_as_it_was_written(settings: Settings, engine: ProcessStatus) -> None:
    status = replace(
        engine, children=(ChildStatus("broker", "retrying", restarts=2, reason="gone", retry_in=4.0),)
    )
    write(settings, status)
    write(settings, status)
    assert read_all(settings) == [status]
    forget(settings, "engine")
    forget(settings, "engine")
    assert read_all(settings) == []


def test_where_sparks_pages_are_is_shown_while_its_process_runs(
    settings: Settings, engine: ProcessStatus, braid: Callable[..., Answer]
) -> None:
    shown = replace(engine, spark_ui="http://127.0.0.1:4040")
    write(settings, shown)
    assert "Spark's pages of engine: http://127.0.0.1:4040" in braid("status").out
    write(settings, dead(shown))
    assert "4040" not in braid("status").out


def test_times_without_a_zone_are_utc(settings: Settings, engine: ProcessStatus) -> None:
    naive = replace(engine, queries=(replace(engine.queries[1], epoch=datetime(2024, 3, 8, 12)),))
    write(settings, naive)
    assert read_all(settings)[0].queries[0].epoch == engine.queries[1].epoch


def test_fields_of_a_newer_release_are_passed_over_and_damaged_documents_too(
    settings: Settings, engine: ProcessStatus, home: Path
) -> None:
    write(settings, engine)
    file = home / "status" / "engine.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"of_tomorrow": 1}))
    (home / "status" / "other.json").write_text('{"process": "oth')
    assert read_all(settings) == [engine]


def test_a_status_that_cannot_be_written_does_not_end_the_process(
    settings: Settings, engine: ProcessStatus, home: Path
) -> None:
    home.parent.mkdir(exist_ok=True)
    home.write_text("a file where the folder should be")
    write(settings, engine)
    forget(settings, engine.process)


def test_a_process_elsewhere_is_known_by_its_heartbeat(settings: Settings, engine: ProcessStatus) -> None:
    """From another container its id means nothing, or is that of somebody else."""
    elsewhere = replace(engine, pid=1, place="another-pod/boot/pid:[1]")
    assert is_alive(elsewhere, engine.updated + FRESH)
    assert not is_alive(elsewhere, engine.updated + FRESH + timedelta(seconds=1))
    (problem,) = problems([elsewhere], engine.updated + timedelta(minutes=1))
    assert problem.startswith("nothing runs")
    write(settings, engine)
    assert [known.place for known in read_all(settings)] == [this_place()]


def test_a_document_of_an_earlier_release_says_no_place_and_is_known_by_its_id(engine: ProcessStatus) -> None:
    assert is_alive(replace(engine, place=""), engine.updated + timedelta(days=1))
    assert not is_alive(dead(replace(engine, place="")), engine.updated)


def test_a_dead_process_is_never_healthy(engine: ProcessStatus) -> None:
    assert is_alive(engine)
    assert not is_alive(dead(engine))
    (problem,) = problems([engine, dead(replace(engine, process="other"))], engine.updated)
    assert problem.startswith("other is not running")


def test_a_process_that_was_given_the_id_of_a_dead_one_is_not_mistaken_for_it(engine: ProcessStatus) -> None:
    before_this_process = engine.started - timedelta(days=1)
    assert not is_alive(replace(engine, started=before_this_process))


def test_a_process_that_nobody_has_collected_yet_is_dead(engine: ProcessStatus) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(replace(engine, pid=process.pid))
    process.wait()
    process.stdout.close()


def test_health_says_what_is_wrong(engine: ProcessStatus) -> None:
    now = engine.updated
    assert problems([engine], now) == []
    assert problems([], now) == ["nothing runs: `braid up` starts everything."]
    assert problems([dead(engine)], now) == ["nothing runs: `braid up` starts everything."]
    (silent,) = problems([engine], now + timedelta(seconds=31))
    assert silent.endswith("has not reported for 31 s.")
    retrying = replace(engine, queries=(QueryStatus("hits", "stream", "retrying", error="no such table"),))
    assert problems([retrying], now) == ["hits is retrying: no such table"]
    children = (ChildStatus("broker", "running"), ChildStatus("engine", "starting"))
    assert problems([supervisor(engine, *children)], now) == ["engine is starting: it is not ready yet"]


def test_the_supervisor_answers_only_for_its_own(engine: ProcessStatus) -> None:
    above = supervisor(engine, ChildStatus("engine", "running"))
    beside = dead(replace(engine, process="ingest"))
    assert under_supervision([engine, beside, above]) == [engine, above]


def test_the_metrics_are_in_base_units_and_carry_their_labels(engine: ProcessStatus) -> None:
    above = supervisor(engine, ChildStatus("engine", "running", restarts=3))
    samples = parsed(prometheus([engine, above]))
    of_hits = frozenset(
        {"process": "engine", "query": "hits", "kind": "stream", "source": "requests", "view": "hits", "version": "1"}
        .items()
    )  # fmt: skip
    found = {name: value for (name, labels), value in samples.items() if labels == of_hits}
    assert found == {
        "braid_query_running": 1,
        "braid_query_batch": 3,
        "braid_query_batch_seconds": 0.25,
        "braid_query_rows_per_second": 40.5,
        "braid_query_lag_seconds": 1.5,
        "braid_query_events_total": 100,
        "braid_query_late_events_total": 4,
        "braid_query_revised_total": 2,
        "braid_query_paused": 0,
        "braid_query_epoch_timestamp_seconds": datetime(2024, 3, 8, 12, tzinfo=UTC).timestamp(),
    }
    assert samples["braid_child_restarts_total", frozenset({("child", "engine")})] == 3
    assert samples["braid_process_up", frozenset({("process", "up")})] == 1


def test_labels_are_escaped(engine: ProcessStatus) -> None:
    nasty = 'a"b\\n\n}'
    samples = parsed(prometheus([replace(engine, queries=(QueryStatus(nasty, "stream", "running"),))]))
    assert nasty in {value for _, labels in samples for name, value in labels if name == "query"}


def test_of_a_dead_process_the_metrics_say_only_that_it_is_dead(engine: ProcessStatus) -> None:
    samples = parsed(prometheus([dead(engine)]))
    assert {name: value for (name, _), value in samples.items() if "time" not in name} == {
        "braid_process_up": 0,
        "braid_query_running": 0,
    }


def get(port: int, path: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_health_and_metrics_are_served_over_http(engine: ProcessStatus) -> None:
    documents, port = [engine], free_port()
    with health_server(Settings(health_port=port), lambda: documents):
        code, kind, body = get(port, "/health")
        assert (code, kind, json.loads(body)["healthy"]) == (200, "application/json", True)
        code, kind, body = get(port, "/metrics?name=any")
        assert (code, kind, body) == (200, "text/plain; version=0.0.4; charset=utf-8", prometheus(documents))
        assert get(port, "/")[0] == 404
        documents[:] = [
            replace(engine, queries=(QueryStatus("hits", "stream", "retrying", error="full disk"),))
        ]
        code, _, body = get(port, "/health")
        assert (code, json.loads(body)["problems"]) == (503, ["hits is retrying: full disk"])
        # It lives, though it is not well: to start it anew would not help.
        assert get(port, "/alive")[0] == 200
        documents[:] = [replace(engine, updated=engine.updated - 2 * FRESH)]
        assert get(port, "/alive") == (503, "text/plain; charset=utf-8", "no report for 30 s\n")
        documents.clear()
        assert get(port, "/alive")[0] == 503


def test_a_taken_health_port_is_refused_with_the_setting_to_change() -> None:
    taken = Settings(health_port=free_port())
    with (
        health_server(taken, list),
        pytest.raises(BraidError, match=f"port {taken.health_port} .*BRAID_HEALTH_PORT"),
        health_server(taken, list),
    ):
        pass


def test_everything_known_is_json(engine: ProcessStatus) -> None:
    shown = json.loads(json.dumps(report([engine], engine.updated)))
    assert shown["processes"][0]["running"] is True
    assert shown["processes"][0]["queries"][1]["epoch"] == "2024-03-08T12:00:00Z"


@pytest.fixture
def status(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """`braid status`, through the command alone."""
    app = typer.Typer()
    app.command()(up.up)
    app.command()(up.status)

    def run(*arguments: str) -> Answer:
        with patch("sys.argv", ["braid", "status", *arguments]):
            try:
                code = app(standalone_mode=False) or 0
            except CheckFailed as failed:
                print_error(str(failed))
                code = 1
        return Answer(code, *capsys.readouterr())

    return run


def test_when_nothing_runs_status_names_the_command_that_starts_it(status: Callable[..., Answer]) -> None:
    answer = status()
    assert (answer.code, answer.out) == (0, "nothing runs: `braid up` starts everything.\n")
    assert status("--check").code == 1
    assert json.loads(status("--json").out) == {
        "healthy": False, "problems": ["nothing runs: `braid up` starts everything."], "processes": [],
    }  # fmt: skip


def test_status_shows_the_queries_of_what_runs(
    status: Callable[..., Answer], settings: Settings, engine: ProcessStatus
) -> None:
    write(settings, engine)
    shown = status("--check")
    assert shown.code == 0
    assert "requests" in shown.out
    assert "12:00:00" in shown.out
    assert json.loads(status("--json", "--check").out)["healthy"] is True
    assert status("--prometheus").out == prometheus([engine])


def test_status_shows_a_dead_process_as_not_running(
    status: Callable[..., Answer], settings: Settings, engine: ProcessStatus
) -> None:
    write(settings, dead(engine))
    shown = status("--check")
    assert shown.code == 1
    assert "not running" in shown.out
    assert status("--json", "--check").code == 1
