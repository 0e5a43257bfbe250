"""What goes wrong around the server is told by its probes, passes when its cause does, and never mixes numbers."""

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from braid import tumbling
from braid.deploy.store import changing
from braid.deploy.versions import removed
from braid.runtime import documents
from braid.runtime.settings import Settings
from serving_layer.memory import all_views, follower
from serving_layer.memory.all_views import AllViews
from serving_layer.memory.changes import NewCommits
from serving_layer.memory.follower import Follower
from tests.api import events_of, serving
from tests.serving import MIDNIGHT, MINUTE, Event, Tables, some_events, view_of
from tests.waiting import until

NOW = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_views, "LOOK_FOR_VIEWS", 0.05)
    monkeypatch.setattr(follower, "SAME_TABLES_EVERY", 0.05)


@pytest.fixture
def tables(home: Path) -> Tables:
    tables = Tables(Settings(home=str(home)), view_of(tumbling("1 hour")))
    tables.deploy()
    tables.append(some_events(0, 20, MIDNIGHT))
    return tables


@pytest.fixture
def client(tables: Tables) -> Iterator[httpx.Client]:
    with serving(tables.settings) as address, httpx.Client(base_url=address, timeout=30) as client:
        yield client


def hits(client: httpx.Client) -> int:
    return sum(row["hits"] for row in client.get("/views/hits").json()["rows"])


def probes(client: httpx.Client) -> tuple[int, int]:
    return client.get("/health").status_code, client.get("/ready").status_code


def once(work: Callable[..., Any], error: Exception) -> tuple[Callable[..., Any], threading.Event]:
    """The same, which fails the first time that it is called; and whether it has."""
    failed = threading.Event()

    def failing(*arguments: Any, **named: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise error
        return work(*arguments, **named)

    return failing, failed


def test_a_look_at_the_store_that_fails_is_not_the_last_one(
    client: httpx.Client, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, failed = once(documents.names, OSError("the store is away"))
    monkeypatch.setattr(documents, "names", failing)
    assert failed.wait(10)
    tables.append(some_events(1, 5, MIDNIGHT + MINUTE))
    until(lambda: hits(client) == 25)
    until(lambda: probes(client) == (200, 200))


def test_a_store_that_stays_away_is_a_problem_that_a_restart_does_not_help(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: str) -> list[str]:
        raise OSError("the store is away")

    monkeypatch.setattr(documents, "names", away)
    until(lambda: probes(client) == (200, 503))
    assert "the store is away" in client.get("/versions").json()["problems"]["BRAID_HOME"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_follower_that_has_ended_fails_the_probes(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(_: AllViews) -> None:
        raise SystemExit

    assert probes(client) == (200, 200)
    monkeypatch.setattr(AllViews, "step", end)
    until(lambda: probes(client) == (503, 503))
    assert "has ended" in client.get("/health").json()["detail"]


def test_a_follower_that_does_not_get_on_fails_the_probes_until_it_does(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(all_views, "STANDS_STILL_AFTER", 0.3)
    with monkeypatch.context() as slow:
        slow.setattr(AllViews, "step", lambda _: goes_on.wait(30))
        until(lambda: probes(client) == (503, 503))
        assert "for 0 s" in client.get("/health").json()["detail"]
    goes_on.set()
    until(lambda: probes(client) == (200, 200))


def test_the_epoch_that_is_served_is_a_metric(client: httpx.Client, tables: Tables) -> None:
    def told(epoch: datetime) -> bool:
        name = 'braid_serving_epoch_timestamp_seconds{version="1",view="hits"}'
        lines = client.get("/metrics").text.splitlines()
        return [float(line.split()[-1]) for line in lines if line.startswith(name)] == [epoch.timestamp()]

    assert told(MIDNIGHT)
    tables.append(some_events(1, 5, MIDNIGHT + MINUTE))
    until(lambda: told(MIDNIGHT + MINUTE))


def test_a_view_that_is_removed_is_not_missed(client: httpx.Client, tables: Tables) -> None:
    with changing(tables.settings, "hits") as draft:
        draft.value = removed(draft.value, NOW)
    until(lambda: client.get("/views/hits").status_code == 404)
    assert probes(client) == (200, 200)
    assert client.get("/versions").json() == {"views": {}, "problems": {}}


@pytest.mark.parametrize("commits", [1, 2, 5], ids=["fewer", "as many", "more"])
def test_tables_that_are_replaced_are_read_anew(client: httpx.Client, tables: Tables, commits: int) -> None:
    tables.append(some_events(1, 30, MIDNIGHT + MINUTE))
    tables.publish(MIDNIGHT.date(), MIDNIGHT)
    until(lambda: hits(client) == 50)
    shutil.rmtree(Path(tables.place.tail).parent)
    rebuilt = Tables(tables.settings, tables.view)
    for epoch in range(commits):
        rebuilt.append(some_events(10 + epoch, 3, MIDNIGHT + epoch * MINUTE))
    until(lambda: hits(client) == 3 * commits)
    rebuilt.publish(MIDNIGHT.date(), MIDNIGHT)
    rebuilt.append(some_events(20, 4, MIDNIGHT + 9 * MINUTE))
    until(lambda: hits(client) == 3 * commits + 4)
    until(lambda: probes(client) == (200, 200))


def test_tables_whose_old_commits_are_cleaned_up_are_the_same_tables(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(tables.settings, "hits")
    opened = follower.now
    Path(tables.place.tail, "_delta_log", f"{0:020d}.json").touch()
    monkeypatch.setattr("serving_layer.memory.follower.SAME_TABLES_EVERY", 0.0)
    assert follower.look() is None
    assert follower.now is opened


def test_who_watches_misses_nothing_when_an_error_passes(
    client: httpx.Client, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits of the tail were read, and then the base could not be."""
    with client.stream("GET", "/views/hits/live?host=a") as stream:
        told = events_of(stream)
        assert next(told)[0] == "hello"
        failing, failed = once(Follower._take_base, OSError("no connection"))
        monkeypatch.setattr(Follower, "_take_base", failing)
        assert failed.wait(10)
        with monkeypatch.context() as broken:
            broken.setattr(Follower, "_take_base", _fail)
            tables.append([Event(MIDNIGHT, "a", 1, MIDNIGHT + MINUTE)])
            until(lambda: probes(client) == (200, 503))
        name, data = next(told)
    assert (name, len(data["rows"])) == ("update", 1)


def _fail(*_: Any) -> None:
    raise OSError("no connection")


def test_who_cannot_be_told_what_moved_is_told_to_read_anew(
    client: httpx.Client, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client.stream("GET", "/views/hits/live") as stream:
        told = events_of(stream)
        assert next(told)[0] == "hello"
        monkeypatch.setattr(NewCommits, "move", _fail)
        tables.append([Event(MIDNIGHT, "a", 1, MIDNIGHT + MINUTE)])
        assert next(told)[0] == "reset"


def test_nobody_waits_for_a_slow_look(
    client: httpx.Client, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who come, leave, ask and probe are served while a look takes its time."""
    looking, goes_on = threading.Event(), threading.Event()
    look = Follower.look

    def slow(self: Follower) -> Any:
        looking.set()
        assert goes_on.wait(30)
        return look(self)

    with client.stream("GET", "/views/hits/live") as stream:
        told = events_of(stream)
        next(told)
        monkeypatch.setattr(Follower, "look", slow)
        assert looking.wait(10)
        with client.stream("GET", "/views/hits/live") as another:
            assert next(events_of(another))[0] == "hello"
    try:
        assert client.get("/health", timeout=2).status_code == 200
        assert hits(client) == 20
    finally:
        goes_on.set()


def test_who_has_left_is_forgotten(tables: Tables) -> None:
    views = AllViews(tables.settings, 1 << 20)
    views.look_for_views()
    loop = asyncio.new_event_loop()
    try:
        for _ in range(10):
            _, watcher = views.watch("hits", loop)
            watcher.has_left = True
        assert len(views._watchers["hits"]) == 1
    finally:
        loop.close()
    tables.append([Event(MIDNIGHT, "a", 1, MIDNIGHT + MINUTE)])
    views.step()
    assert views.problems == {}
