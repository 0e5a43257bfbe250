"""`braid sink`, `braid alerts` and `braid check`: what a person sees of numbers that leave, and of what is wrong."""

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from braid import tumbling
from braid.define.loading import load_definitions
from braid.errors import DefinitionError
from braid.runtime.settings import Settings
from braid.runtime.status import SINKS, read_all
from serving_layer.sinks.check import alert_problems, served_schema, sink_problems
from serving_layer.sinks.run import run
from tests.conftest import Answer, free_port
from tests.postgres import Server, a_server
from tests.serving import MIDNIGHT, MINUTE, some_events
from tests.sinks import begun
from tests.waiting import until

ROOT = Path(__file__).parents[2]
BRAID = str(Path(sys.executable).with_name("braid"))
DEFINITIONS = """\
from dataclasses import replace
from braid import Alert, files, kafka_topic, postgres, tumbling, webhook
from tests.serving import view_of
hits = replace(view_of(tumbling("1 minute")), sinks=tuple([{sinks}]))
{more}
"""
BUSY = 'busy = Alert(name="busy", view=hits, when="hits >= 1")'


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with a_server() as running:
        yield running


@pytest.fixture
def define(
    home: Path, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Settings]:
    server.query("DROP TABLE IF EXISTS hits, braid_sinks")
    monkeypatch.setenv("BRAID_DSN_WAREHOUSE", server.dsn)

    def defined(sinks: str, more: str = "") -> Settings:
        file = tmp_path / "defined.py"
        file.write_text(DEFINITIONS.format(sinks=sinks, more=more))
        monkeypatch.setenv("BRAID_DEFINITIONS", str(file))
        return Settings(home=str(home), definitions=str(file))

    return defined


class Process:
    """The process of the sinks, in a thread."""

    def __init__(self, settings: Settings) -> None:
        found = load_definitions(settings.definitions)
        self._stop = threading.Event()
        arguments = (settings, list(found.views.values()), list(found.alerts.values()), self._stop)
        self._thread = threading.Thread(target=run, args=arguments)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)


def count(server: Server) -> int:
    return int(server.query("SELECT count(*) FROM hits")[0][0])


def test_a_sink_is_seen_paused_resumed_and_delivered_again(
    define: Callable[..., Settings], server: Server, braid: Callable[..., Answer]
) -> None:
    settings = define('postgres("warehouse", table="hits")', BUSY)
    tables = begun(settings, tumbling("1 minute"))
    name = "postgres:warehouse/hits"

    def shown() -> dict[str, Any]:
        return dict(json.loads(braid("sink", "status", "hits", "--json").out)[0])

    assert shown()["state"] == "not running"
    with Process(settings):
        until(lambda: shown()["revision"] == 1)
        before = count(server)
        assert braid("sink", "pause", "hits", "--sink", name).out == f"{name}: paused\n"
        until(lambda: any(q.state == "paused" for p in read_all(settings) for q in p.queries))
        tables.append(some_events(5, 20, MIDNIGHT + MINUTE, hours=9))
        assert shown()["state"] == "paused"
        assert count(server) == before
    with Process(settings):
        until(lambda: any(q.state == "paused" for p in read_all(settings) for q in p.queries))
        assert count(server) == before
        assert braid("sink", "resume", "hits").code == 0
        until(lambda: count(server) > before)
        server.query("DELETE FROM hits WHERE hits > 0")
        assert braid("sink", "replay", "hits").code == 0
        until(lambda: count(server) > before)
        until(lambda: json.loads(braid("sink", "status", "--json").out)[0]["state"] == "running")
    assert [process for process in read_all(settings) if process.process == SINKS] == []
    listed = json.loads(braid("alerts", "--json", "--limit", "3").out)
    assert len(listed) == 3
    assert {"alert", "state", "keys", "numbers", "window_start", "fired", "corrected"} <= listed[0].keys()
    assert "busy" in braid("alerts", "busy").out
    assert "busy" in braid("alerts").out


def test_probes_see_the_process_of_the_sinks(define: Callable[..., Settings], server: Server) -> None:
    settings = define('postgres("warehouse", table="hits")')
    begun(settings, tumbling("1 minute"))
    port = free_port()
    known = {"BRAID_HOME": settings.home, "BRAID_HEALTH_PORT": str(port), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([BRAID, "sink", "run", "--health"], env=os.environ | known)

    def answered(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    try:
        until(lambda: answered("/alive")[0] == 200, 60)
        until(lambda: "braid_query_batch{" in answered("/metrics")[1], 60)
        assert 'kind="sink"' in answered("/metrics")[1]
        until(lambda: answered("/health")[0] == 200, 60)
        server.stop()
        until(lambda: answered("/health")[0] == 503, 60)
        assert answered("/alive")[0] == 200
    finally:
        server.start()
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("sinks", "more", "said"),
    [
        ('postgres("elsewhere", table="hits")', "", "there is no dsn 'elsewhere': set BRAID_DSN_ELSEWHERE"),
        ('postgres("warehouse", table="theirs")', "", "has other columns: it lacks host"),
        ('postgres("warehouse", table="nowhere.hits")', "", 'schema "nowhere" does not exist'),
        ('files("/proc/nothing/here")', "", "cannot be used"),
        ('kafka_topic("hits")', "", "no Kafka broker answers on 127.0.0.1:9"),
        (
            'files("/tmp/a")',
            'b = replace(hits, name="b", window=tumbling("1 hour"))',
            "view 'hits' writes there too",
        ),
    ],
)
def test_a_sink_that_cannot_work_is_found_before_it_runs(
    define: Callable[..., Settings], server: Server, sinks: str, more: str, said: str
) -> None:
    server.query("CREATE TABLE IF NOT EXISTS theirs (id int)")
    settings = define(sinks, more).model_copy(update={"kafka_bootstrap": "127.0.0.1:9"})
    found = list(sink_problems(settings, load_definitions(settings.definitions).views.values()))
    assert [said in problem.message for problem in found] == [True], found


@pytest.mark.parametrize(
    ("sinks", "more", "said"),
    [
        ('postgres("warehouse", table="hits", emit="sometimes")', "", "emit 'sometimes' is not known"),
        ('postgres("postgresql://me:secret@db/x", table="hits")', "", "give it a name"),
        ('postgres("warehouse", table="Hits; drop")', "", "lower-case letters"),
        ('kafka_topic("no such topic")', "", "kafka_topic: topic is 'no such topic'"),
        ('files("out", format="excel")', "", "format 'excel' is not known"),
        ('files("a"), files("a")', "", "is there twice"),
        ('"elsewhere"', "", "write a tuple of kafka_topic"),
        ('files("a")', BUSY.replace("hits >= 1", "errors > 1"), "there is no column 'errors'"),
    ],
)
def test_what_is_wrong_in_the_definition_is_said_when_it_loads(
    define: Callable[..., Settings], braid: Callable[..., Answer], sinks: str, more: str, said: str
) -> None:
    settings = define(sinks, more)
    with pytest.raises(DefinitionError, match=said) as refused:
        load_definitions(settings.definitions)
    assert "secret" not in str(refused.value)
    answer = braid("views")
    assert answer.code == 2
    assert said in answer.err


def test_an_alert_that_cannot_work_is_found_before_it_runs(define: Callable[..., Settings]) -> None:
    settings = define('files("/tmp/a")', BUSY.replace("hits >= 1", "host + 1 > hits and frobnicate(hits)"))
    begun(settings, tumbling("1 minute"))
    alert = load_definitions(settings.definitions).alert("busy")
    schema = served_schema(settings, "hits")
    assert schema is not None
    (problem,) = alert_problems(alert, schema)
    assert problem.part == "when"
    assert "frobnicate" in problem.message or "host" in problem.message


def test_what_is_not_there_is_said(define: Callable[..., Settings], braid: Callable[..., Answer]) -> None:
    define('files("/tmp/a")')
    for words, said in (
        (("sink", "pause", "fly"), "there is no view 'fly'"),
        (("sink", "pause", "hits", "--sink", "fly"), "view 'hits' has no sink 'fly'"),
        (("alerts", "fly"), "there is no alert 'fly'"),
    ):
        answer = braid(*words)
        assert answer.code == 2
        assert said in answer.err


def test_an_empty_list_says_why_it_is_empty(
    define: Callable[..., Settings], braid: Callable[..., Answer]
) -> None:
    define("")
    assert "no view has sinks: add one" in braid("sink", "status").out
    assert "there are no alerts: add an Alert(...)" in braid("alerts").out
    settings = define("", BUSY)
    assert "nobody judges alerts now: `braid sink run`" in braid("alerts").out
    begun(settings, tumbling("1 minute"))
    with Process(settings):
        until(lambda: any(process.process == SINKS for process in read_all(settings)))
        found = braid("alerts", "--state", "withdrawn")
    assert (found.code, found.out) == (0, "nothing to list: no alert has said that.\n")
    assert json.loads(braid("alerts", "--state", "withdrawn", "--json").out) == []
