"""A view's table in a real PostgreSQL is what is served, whatever is killed, and changes only as a whole."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from braid import all_time, count, postgres, session, sliding, tumbling
from braid.errors import BraidError
from braid.runtime.settings import Settings
from serving_layer.answer.json_values import plain
from serving_layer.memory.changes import rows_of
from serving_layer.memory.follower import Follower
from serving_layer.sinks.postgres import PostgresTable
from tests.postgres import Server, a_server
from tests.serving import MIDNIGHT, MINUTE, SOURCE, some_events, view_of
from tests.sinks import Feeding, begun, go_back, promote, served

WINDOWS = {
    "1 minute": tumbling("1 minute"),
    "3 hours every hour": sliding("3 hours", every="1 hour"),
    "session": session(gap="30 minutes"),
    "all time": all_time(),
}
HIDDEN = ("_key", "_view", "_version", "_revision", "_complete")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with a_server() as running:
        yield running


@pytest.fixture
def settings(home: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("BRAID_DSN_WAREHOUSE", server.dsn)
    server.query("DROP TABLE IF EXISTS hits, braid_sinks")
    return Settings(home=str(home))


def table(server: Server, hidden: tuple[str, ...] = HIDDEN) -> list[str]:
    names = [name for (name,) in server.query(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'hits'::regclass AND attnum > 0 AND NOT attisdropped"
    ) if name not in hidden]  # fmt: skip
    listed = ", ".join(f'"{name}"' for name in names)
    rows = server.query(f"SELECT {listed} FROM hits")
    return sorted(
        str(sorted((name, plain(value, SOURCE.zone)) for name, value in zip(names, row, strict=True)))
        for row in rows
    )


def feeding_of(settings: Settings, emit: Any = "updates") -> Feeding:
    sink = postgres("warehouse", table="hits", emit=emit)
    return Feeding(settings, sink, PostgresTable(sink, "hits"))


@pytest.mark.parametrize(
    ("window", "emit"),
    [
        (window, emit)
        for window in WINDOWS
        for emit in ("updates", "final")
        if (window, emit) != ("all time", "final")
    ],
)
def test_the_table_is_what_is_served_whatever_happens_and_whoever_is_killed(
    settings: Settings, server: Server, window: str, emit: Any
) -> None:
    tables = begun(settings, WINDOWS[window])
    sink = postgres("warehouse", table="hits", emit=emit)
    feeding = Feeding(settings, sink, PostgresTable(sink, "hits"))
    draw = random.Random(window)
    for turn in range(1, 13):
        epoch = MIDNIGHT + turn * MINUTE
        tables.append(
            some_events(draw.randrange(99), 6, epoch, hours=draw.randrange(1, 30)), complete=epoch - MINUTE
        )
        if draw.random() < 0.4:
            day = draw.choice([event.day for event in tables.events])
            tables.publish(day, max(epoch - MINUTE, tables.through.get(day, MIDNIGHT)))
        feeding.look()
        if draw.random() < 0.3:
            # As if killed: nothing is remembered but what the table holds.
            feeding = Feeding(settings, sink, PostgresTable(sink, "hits"))
        if draw.random() < 0.7:
            feeding.turn()
            assert table(server) == served(settings, final=emit == "final")
    feeding.turn()
    assert table(server) == served(settings, final=emit == "final")
    revision = server.query("SELECT max(_revision) FROM hits")[0][0]
    assert revision <= server.query("SELECT revision FROM braid_sinks WHERE sink = 'hits'")[0][0]


def test_what_did_not_change_is_not_written_again(settings: Settings, server: Server) -> None:
    tables = begun(settings, tumbling("1 minute"))
    sink = postgres("warehouse", table="hits")
    feeding = Feeding(settings, sink, PostgresTable(sink, "hits"))
    feeding.turn()
    assert {revision for (revision,) in server.query("SELECT DISTINCT _revision FROM hits")} == {1}
    again = Feeding(settings, sink, PostgresTable(sink, "hits"))
    again.turn()
    assert {revision for (revision,) in server.query("SELECT DISTINCT _revision FROM hits")} == {1}
    tables.append([replace(tables.events[0], epoch=MIDNIGHT + MINUTE)])
    again.look()
    again.turn()
    newest = server.query("SELECT max(_revision) FROM hits")[0][0]
    assert server.query("SELECT count(*) FROM hits WHERE _revision = %s", newest) == [(1,)]


def test_a_history_keeps_every_number_that_was_final(settings: Settings, server: Server) -> None:
    tables = begun(settings, tumbling("1 minute"))
    first = min(tables.events, key=lambda event: event.time)
    tables.append([replace(first, time=first.time.replace(hour=23), epoch=MIDNIGHT + MINUTE)])
    sink = postgres("warehouse", table="hits", emit="revisions")
    feeding = Feeding(settings, sink, PostgresTable(sink, "hits"))
    feeding.turn()
    was = served(settings, final=True)
    assert table(server, (*HIDDEN, "_change")) == was
    tables.append([replace(first, epoch=MIDNIGHT + 2 * MINUTE, late=1)])
    feeding.look()
    feeding.turn()
    more = table(server, (*HIDDEN, "_change"))
    assert len(more) == len(was) + 1
    assert set(was) | set(served(settings, final=True)) == set(more)
    Feeding(settings, sink, PostgresTable(sink, "hits")).turn()
    assert table(server, (*HIDDEN, "_change")) == more


@pytest.mark.parametrize("emit", ["updates", "revisions"])
@pytest.mark.parametrize("keys", [("host",), ()], ids=["same keys", "fewer keys"])
def test_a_promoted_version_replaces_all_rows_and_columns(
    settings: Settings, server: Server, keys: tuple[str, ...], emit: Any
) -> None:
    tables = begun(settings, tumbling("1 minute"), lateness="1 minute")
    feeding = feeding_of(settings, emit)
    feeding.turn()
    changed = view_of(tumbling("2 minutes"), keys=keys, lateness="1 minute", measures={"hits": count()})
    promote(settings, tables, changed)
    for version in (2, 1):
        feeding.look()
        feeding.turn()
        if emit == "updates":
            assert table(server) == served(settings)
            assert server.query("SELECT DISTINCT _version FROM hits") == [(version,)]
            assert ("total" in table(server)[0]) == (version == 1)
        else:
            newest = "SELECT DISTINCT ON (_key) * FROM hits ORDER BY _key, _revision DESC"
            now = server.query(f"SELECT sum(hits), count(*) FROM ({newest}) n WHERE _change = 'changed'")
            finals = [
                row
                for row in rows_of(Follower(settings, "hits").now).values()
                if row["_status"] != "provisional"
            ]
            assert now == [(sum(row["hits"] for row in finals), len(finals))]
        if version == 2:
            go_back(settings)


def test_a_server_that_was_away_gets_what_it_missed(settings: Settings, server: Server) -> None:
    tables = begun(settings, tumbling("1 minute"))
    feeding = feeding_of(settings)
    feeding.turn()
    server.stop(kill=True)
    tables.append(some_events(7, 20, MIDNIGHT + MINUTE))
    feeding.look()
    try:
        assert not feeding.delivering.turn()
        found = feeding.delivering.status()
        assert (found.state, found.retry_in is not None) == ("retrying", True)
        assert (found.lag_seconds or 0) > 0
    finally:
        server.start()
    tables.append(some_events(8, 20, MIDNIGHT + 2 * MINUTE))
    feeding.look()
    feeding.delivering._due = 0.0
    feeding.turn()
    assert table(server) == served(settings)
    assert feeding.delivering.status().state == "running"


def test_a_table_of_somebody_else_is_not_touched(settings: Settings, server: Server) -> None:
    server.query("CREATE TABLE hits (host text, mine int)")
    begun(settings, tumbling("1 minute"))
    feeding = feeding_of(settings)
    assert not feeding.delivering.turn()
    said = feeding.delivering.status().error or ""
    assert "the table exists, is not Braid's, and has other columns" in said
    assert "it has mine" in said
    assert server.query("SELECT count(*) FROM hits") == [(0,)]


def test_two_writers_of_one_table_are_noticed(settings: Settings, server: Server) -> None:
    tables = begun(settings, tumbling("1 minute"))
    sink = postgres("warehouse", table="hits")
    one, other = (
        Feeding(settings, sink, PostgresTable(sink, "hits")),
        Feeding(settings, sink, PostgresTable(sink, "hits")),
    )
    one.turn()
    other.turn()
    tables.append(some_events(3, 9, MIDNIGHT + MINUTE))
    for feeding in (one, other):
        feeding.look()
    one.turn()
    assert not other.delivering.turn()
    assert "somebody else wrote revision" in (other.delivering.status().error or "")


def test_a_key_can_have_any_text_and_none(settings: Settings, server: Server) -> None:
    tables = begun(settings, tumbling("1 minute"))
    strange = ["", None, "a\x00b", "x" * 10_000, "'; drop table hits; --", "\\N", "\t\n", "☃"]
    tables.append([replace(tables.events[0], host=host, epoch=MIDNIGHT + MINUTE) for host in strange])
    feeding_of(settings).turn()
    hosts = {host for (host,) in server.query("SELECT DISTINCT host FROM hits")}
    assert hosts >= {"", None, "a\u2400b", "x" * 10_000, "'; drop table hits; --", "\\N", "\t\n", "☃"}


def test_an_unknown_dsn_and_one_that_is_wrong_are_said_without_the_secret(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BraidError, match=r"there is no dsn 'elsewhere': set BRAID_DSN_ELSEWHERE"):
        PostgresTable(postgres("elsewhere", table="hits"), "hits").held(view_of(tumbling("1 minute")))
    for secret in (
        "hunter2",
        "postgresql://me:hunter2@127.0.0.1:1/x",
        "host=127.0.0.1 port=1 password=hunter2 zz=1",
    ):
        monkeypatch.setenv("BRAID_DSN_WRONG", secret)
        with pytest.raises(BraidError) as refused:
            PostgresTable(postgres("wrong", table="hits"), "hits").held(view_of(tumbling("1 minute")))
        assert "hunter2" not in str(refused.value)
