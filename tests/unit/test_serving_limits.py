"""Nobody can freeze the server: work, queues, memory, streams and connections have limits, and probes none of them."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from braid import sliding, tumbling
from braid.runtime.settings import Settings
from braid.states.database import cursor, limit_database
from serving_layer.http import routes_views, server
from serving_layer.http.app import Limits
from serving_layer.http.limits import Answering
from serving_layer.http.metrics import ServerMetrics
from serving_layer.http.problems import Refused
from serving_layer.memory.all_views import AllViews
from tests.api import events_of, serving
from tests.serving import MIDNIGHT, Tables, some_events, view_of
from tests.waiting import until

ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range, b.range) = 1"


@pytest.fixture
def tables(home: Path) -> Tables:
    tables = Tables(Settings(home=str(home)), view_of(tumbling("1 hour")))
    tables.deploy()
    tables.append(some_events(0, 20, MIDNIGHT))
    return tables


@pytest.fixture
def answering(home: Path) -> Iterator[Answering]:
    views = AllViews(Settings(home=str(home)), 0)
    answering = Answering(Limits(seconds=0.3, at_once=1), ServerMetrics(views, lambda: []))
    yield answering
    answering.close()


def is_refused(answer: httpx.Response, status: int) -> bool:
    return (answer.status_code, answer.headers.get("retry-after")) == (status, "1")


def asked_from(address: str, client: int = 1) -> httpx.Response:
    """Each client has an address of its own on this machine."""
    with httpx.Client(transport=httpx.HTTPTransport(local_address=f"127.0.1.{client}"), timeout=30) as http:
        return http.get(address)


def test_a_place_is_free_when_the_work_has_ended_and_not_when_its_reader_has_gone(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[int] = []
    goes_on, most = threading.Event(), 0

    def slow(*_: Any) -> None:
        nonlocal most
        running.append(1)
        most = max(most, len(running))
        goes_on.wait(30)
        running.pop()
        raise Refused(400, "late")

    limits = Limits(seconds=0.2, at_once=2, waiting=20)
    with serving(tables.settings, limits=limits) as address, ThreadPoolExecutor(12) as readers:
        monkeypatch.setattr(routes_views, "ask", slow)
        try:
            answers = list(readers.map(lambda n: asked_from(f"{address}/views/hits", n + 1), range(12)))
            assert all(is_refused(answer, 503) for answer in answers)
            assert (len(running), most) == (2, 2)
        finally:
            goes_on.set()
        monkeypatch.undo()
        until(lambda: httpx.get(f"{address}/views/hits").status_code == 200)


def test_who_would_wait_too_long_is_told_at_once(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, begun = threading.Event(), threading.Semaphore(0)

    def slow(*_: Any) -> None:
        begun.release()
        goes_on.wait(30)
        raise Refused(400, "late")

    limits = Limits(seconds=30, at_once=1, waiting=2)
    with serving(tables.settings, limits=limits) as address, ThreadPoolExecutor(8) as readers:
        monkeypatch.setattr(routes_views, "ask", slow)
        try:
            asked = [readers.submit(asked_from, f"{address}/views/hits", n + 1) for n in range(8)]
            until(lambda: sum(answer.done() for answer in asked) == 5)
            refused = [answer.result() for answer in asked if answer.done()]
            assert all(is_refused(answer, 503) for answer in refused)
            assert "2 questions wait" in refused[0].json()["detail"]
            assert httpx.get(f"{address}/health", timeout=2).status_code == 200
        finally:
            goes_on.set()


def test_one_client_does_not_take_the_turns_of_others(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, begun = threading.Event(), threading.Semaphore(0)
    quick = routes_views.ask

    def slow(now: Any, request: Any) -> Any:
        if request.limit == 7:
            begun.release()
            goes_on.wait(30)
        return quick(now, request)

    limits = Limits(seconds=30, at_once=4, waiting=8)
    with serving(tables.settings, limits=limits) as address, ThreadPoolExecutor(12) as readers:
        monkeypatch.setattr(routes_views, "ask", slow)
        try:
            asked = [readers.submit(asked_from, f"{address}/views/hits?limit=7", 1) for _ in range(12)]
            # Two are answered, two wait, and all others are refused, not at once.
            until(lambda: sum(answer.done() for answer in asked) == 8, 30)
            refused = [answer.result() for answer in asked if answer.done()]
            assert all(is_refused(answer, 429) for answer in refused)
            assert all(answer.elapsed.total_seconds() > 0.4 for answer in refused)
            assert all(answer.headers["connection"] == "close" for answer in refused)
            assert asked_from(f"{address}/views/hits", 2).status_code == 200
            assert httpx.get(f"{address}/health", timeout=2).status_code == 200
        finally:
            goes_on.set()
        assert [answer.result().status_code for answer in asked].count(200) == 4


def test_who_waits_for_its_own_questions_too_long_is_told_and_others_are_answered(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()

    def slow(*_: Any) -> None:
        goes_on.wait(30)
        raise Refused(400, "late")

    limits = Limits(seconds=0.3, at_once=2, waiting=12)
    with serving(tables.settings, limits=limits) as address, ThreadPoolExecutor(3) as readers:
        monkeypatch.setattr(routes_views, "ask", slow)
        try:
            answers = list(readers.map(lambda _: asked_from(f"{address}/views/hits"), range(3)))
            assert all(is_refused(answer, 503) for answer in answers)
            # Its work goes on, which nobody can stop; the other place is for others.
            assert is_refused(asked_from(f"{address}/views/hits"), 503)
            other = asked_from(f"{address}/views", 2)
            assert other.status_code == 200, other.text
        finally:
            goes_on.set()


def test_a_query_that_nobody_waits_for_is_interrupted(answering: Answering) -> None:
    ended = threading.Event()

    def work() -> None:
        try:
            with cursor() as database:
                database.execute(ENDLESS).fetchall()
        finally:
            ended.set()

    async def ask() -> None:
        with pytest.raises(Refused, match="no answer within"):
            await answering.run("/views", work)
        assert await asyncio.to_thread(ended.wait, 20), "it runs on"

    asyncio.run(ask())


def test_a_query_that_needs_more_memory_than_there_is_says_so(answering: Answering) -> None:
    def work() -> None:
        with cursor() as database:
            database.execute("SELECT list(range) FROM range(20000000)").fetchall()

    async def ask() -> None:
        await answering.run("/views", work)

    with cursor() as database:
        before = database.execute(
            "SELECT current_setting('memory_limit'), current_setting('threads')"
        ).fetchone()
    assert before is not None
    limit_database(32 << 20, 1)
    try:
        with pytest.raises(Refused) as refused:
            asyncio.run(ask())
        assert refused.value.status == 413
    finally:
        with cursor() as database:
            for name, value in zip(("memory_limit", "threads"), before, strict=True):
                database.execute(f"SET {name} = '{value}'")


def test_a_state_costs_as_many_windows_as_it_is_in(home: Path) -> None:
    tables = Tables(Settings(home=str(home)), view_of(sliding("1 day", every="1 minute")))
    tables.deploy()
    tables.append(some_events(0, 20, MIDNIGHT))
    with serving(tables.settings, limits=Limits(states=20 * 1440 - 1)) as address:
        answer = httpx.get(f"{address}/views/hits")
        assert (answer.status_code, "28,800 states" in answer.json()["detail"]) == (413, True)
        assert httpx.get(f"{address}/views/hits?grain=1+day").status_code == 200


def test_a_client_has_so_many_streams(tables: Tables) -> None:
    with (
        serving(tables.settings, limits=Limits(streams=8)) as address,
        httpx.Client(base_url=address, timeout=30) as client,
        ExitStack() as open_streams,
    ):
        first = [
            open_streams.enter_context(client.stream("GET", path)) for path in ("/live", "/views/hits/live")
        ]
        # Kept: events that nobody reads any more close their stream.
        told = [events_of(stream) for stream in first]
        for events in told:
            next(events)
        with client.stream("GET", "/live") as refused:
            assert is_refused(refused, 429)
            assert "2 streams" in json.loads(refused.read())["detail"]
        assert client.get("/views/hits").status_code == 200
        first[0].close()

        def has_room() -> bool:
            with client.stream("GET", "/live") as stream:
                return stream.status_code == 200

        until(has_room)


def connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=10)


def test_a_client_that_opens_too_many_connections_does_not_shut_out_the_probes(tables: Tables) -> None:
    with serving(tables.settings, limits=Limits(connections=16)) as address, ExitStack() as idle:
        for _ in range(4):
            idle.enter_context(connected(address))
        refused = httpx.get(f"{address}/views", timeout=10)
        assert is_refused(refused, 429)
        assert refused.headers["connection"] == "close"
        assert "default-src" in refused.headers["content-security-policy"]
        for _ in range(300):
            idle.enter_context(connected(address))
        began = time.monotonic()
        assert httpx.get(f"{address}/health", timeout=10).status_code == 200
        assert time.monotonic() - began < 5
        idle.close()
        until(lambda: httpx.get(f"{address}/views", timeout=10).status_code == 200)


def test_a_connection_that_asks_nothing_is_closed(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SILENT_FOR", 0.2)
    with serving(tables.settings) as address, connected(address) as silent:
        silent.sendall(b"GET /views HTTP/1.1\r\nHost: loc")
        with suppress(ConnectionResetError):
            assert silent.recv(100) == b""
