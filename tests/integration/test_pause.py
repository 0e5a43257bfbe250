"""A person pauses a stream: it rests, is seen to, rests after a restart too, and then goes on where it stopped."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from braid.deploy.store import Pauses, read_pauses
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.runtime.status import QueryStatus, read_all
from speed_layer.jobs.engine import stream
from tests.conftest import Answer
from tests.streams import Feed, recomputed, requests, served, some, tables_of, traffic, visits
from tests.waiting import until


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home), spark_master="local[2]", kafka_bootstrap="127.0.0.1:1")


@contextmanager
def engine(spark: Any, settings: Settings) -> Iterator[None]:
    stop = threading.Event()
    running = threading.Thread(
        target=stream, args=(spark, [traffic, visits], settings), kwargs={"stop": stop, "only": True}
    )
    running.start()
    try:
        yield
    finally:
        stop.set()
        running.join(120)


def told(settings: Settings, view: str) -> QueryStatus | None:
    found = [query for process in read_all(settings) for query in process.queries if query.view == view]
    return found[0] if found else None


def is_in(settings: Settings, view: str, state: str) -> bool:
    query = told(settings, view)
    return query is not None and query.state == state


@pytest.mark.soak
@pytest.mark.usefixtures("home")
def test_a_paused_stream_rests_over_a_restart_and_goes_on_where_it_stopped(
    spark: Any,
    settings: Settings,
    braid: Callable[..., Answer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "defined.py"
    file.write_text("from tests.streams import traffic, visits\n")
    monkeypatch.setenv("BRAID_DEFINITIONS", str(file))
    feed = Feed(spark, Log(requests, settings))
    feed.commit(some(20, 0), 0)
    with engine(spark, settings):
        until(lambda: all(is_in(settings, view.name, "running") for view in (traffic, visits)))
        done = braid("stream", "pause", traffic.name)
        assert (done.code, done.out) == (
            0,
            f"paused: {traffic.name}. What runs sees it within a second or two.\n",
        )
        until(lambda: is_in(settings, traffic.name, "paused"))
        before = served(spark, traffic, tables_of(settings, traffic))
        feed.commit(some(20, 1), 1)
        until(
            lambda: served(spark, visits, tables_of(settings, visits)) == recomputed(spark, visits, settings)
        )
        assert served(spark, traffic, tables_of(settings, traffic)) == before
    assert read_pauses(settings) == Pauses(stream=(traffic.name,))
    with engine(spark, settings):
        until(lambda: is_in(settings, traffic.name, "paused"))
        until(lambda: is_in(settings, visits.name, "running"))
        braid("stream", "resume", traffic.name)
        until(lambda: is_in(settings, traffic.name, "running"))
        until(
            lambda: (
                served(spark, traffic, tables_of(settings, traffic)) == recomputed(spark, traffic, settings)
            )
        )
    assert read_pauses(settings) == Pauses()
