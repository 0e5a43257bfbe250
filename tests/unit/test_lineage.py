"""Lineage: events that have what OpenLineage asks for, sent to a file or over HTTP, and never at the cost of a run."""

import json
import logging
import threading
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from braid.errors import SettingsError
from braid.examples.weblog import requests
from braid.lineage import receiver
from braid.lineage.datasets import log_of, origin_of
from braid.lineage.events import LineageDataset, LineageJob, ParentRun, Told
from braid.lineage.runs import PARENT, begun, parent_run, traced
from braid.runtime.settings import Settings, load_settings
from tests.conftest import free_port
from tests.lineage import kinds, required, told_in

JOB = LineageJob(
    "batch.hits", "BATCH", (LineageDataset("file", "/log", {"id": "string"}),), (LineageDataset("file", "/base"),)
)  # fmt: skip
RUN = "6f2f3cbb-91a1-4cd4-8b8d-1f7d7f0f5b11"


@pytest.fixture
def to_file(tmp_path: Path) -> Settings:
    return Settings(lineage=str(tmp_path / "of" / "runs.jsonl"))


@pytest.fixture(autouse=True)
def _nobody_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "_away", {})


def test_a_run_is_told_when_it_begins_and_ends_with_all_that_the_specification_requires(
    to_file: Settings,
) -> None:
    with traced(to_file, lambda: [JOB]) as told:
        told[JOB.name] = Told(40, 8, {"braid_cut": {"cut": "2026-03-01T00:00:00+00:00"}})
    start, end = told_in(to_file.lineage)
    for event in (start, end):
        required(event)
    assert kinds([start, end]) == [("batch.hits", "START"), ("batch.hits", "COMPLETE")]
    assert start["run"]["runId"] == end["run"]["runId"]
    assert datetime.fromisoformat(start["eventTime"]) <= datetime.fromisoformat(end["eventTime"])
    (read,), (wrote,) = end["inputs"], end["outputs"]
    assert (read["namespace"], read["name"]) == ("file", "/log")
    assert read["facets"]["schema"]["fields"] == [{"name": "id", "type": "string"}]
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 40
    assert wrote["outputFacets"]["outputStatistics"]["rowCount"] == 8
    assert end["run"]["facets"]["braid_cut"]["cut"] == "2026-03-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("error", "ends"), [(ValueError("the disk is full"), "FAIL"), (KeyboardInterrupt("Ctrl-C"), "ABORT")]
)
def test_what_raises_is_told_with_its_error_and_raised_on(
    to_file: Settings, error: BaseException, ends: str
) -> None:
    with pytest.raises(type(error)), traced(to_file, lambda: [JOB]):
        raise error
    end = told_in(to_file.lineage)[-1]
    required(end)
    assert end["eventType"] == ends
    assert end["run"]["facets"]["errorMessage"]["message"] == str(error)


def test_nothing_is_looked_up_where_nobody_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def never() -> Any:
        raise AssertionError

    assert begun(Settings(), never) is None
    with traced(Settings(), never):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_run_names_the_task_of_airflow_that_started_it(
    to_file: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PARENT, f"airflow/daily_batch.run/{RUN}")
    with traced(to_file, lambda: [JOB]):
        pass
    for event in told_in(to_file.lineage):
        required(event)
        parent = event["run"]["facets"]["parent"]
        assert parent["job"] == {"namespace": "airflow", "name": "daily_batch.run"}
        assert parent["run"] == {"runId": RUN}


@pytest.mark.parametrize(
    ("text", "parent"),
    [
        ("", None),
        ("a/b/c", None),
        (f"b/{RUN}", None),
        (f"http://airflow/dag.task/{RUN}", ParentRun("http://airflow", "dag.task", RUN)),
    ],
)
def test_a_parent_that_is_none_is_left_out(text: str, parent: ParentRun | None) -> None:
    assert parent_run(text) == parent


class Listening(BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    got: list[tuple[str, str | None, Any]] = []  # noqa: RUF012
    answer = 201

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(self.answer)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Listening, "got", [])
    with HTTPServer(("127.0.0.1", 0), Listening) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api/v1/lineage"
        server.shutdown()


def test_events_are_posted_with_the_key(listening: str) -> None:
    with traced(Settings(lineage=listening, lineage_key=SecretStr("k")), lambda: [JOB]):
        pass
    assert [(path, key, event["eventType"]) for path, key, event in Listening.got] == [
        ("/api/v1/lineage", "Bearer k", "START"),
        ("/api/v1/lineage", "Bearer k", "COMPLETE"),
    ]


@pytest.mark.parametrize("how", ["nobody listens", "it refuses", "a file in a file"])
def test_a_receiver_that_fails_costs_a_warning_and_not_the_run(
    how: str,
    listening: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Listening, "answer", 500)
    (tmp_path / "file").touch()
    place = {
        "nobody listens": f"http://127.0.0.1:{free_port()}/", "it refuses": listening,
        "a file in a file": str(tmp_path / "file" / "events.jsonl"),
    }[how]  # fmt: skip
    done = False
    with caplog.at_level(logging.WARNING, "braid"), traced(Settings(lineage=place), lambda: [JOB]):
        done = True
    assert done
    # Asked once, and then left alone for a while: a run of many views does not wait for each of them.
    assert caplog.messages == ["lineage was not sent"] * 2
    assert len(Listening.got) == (1 if how == "it refuses" else 0)


@pytest.mark.parametrize("place", ["s3a://bucket/lineage", "http://me:secret@host/lineage"])
def test_a_place_that_cannot_be_told_is_refused_with_the_fix(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_LINEAGE", place)
    with pytest.raises(SettingsError, match="name a file, or http"):
        load_settings()


def test_topics_and_tables_are_named_as_others_name_them(tmp_path: Path) -> None:
    local = Settings(home=str(tmp_path), kafka_bootstrap="k1:9092,k2:9092")
    topic, log = origin_of(requests, local), log_of(requests, local)
    assert (topic.namespace, topic.name) == ("kafka://k1:9092", requests.kafka_topic)
    assert (log.namespace, log.name) == ("file", str(tmp_path / "log" / requests.name))
    stored = log_of(requests, Settings(home="s3a://bucket/braid"))
    assert (stored.namespace, stored.name) == ("s3://bucket", f"braid/log/{requests.name}")
