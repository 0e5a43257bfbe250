"""Airflow's processes share a SQLite file, and none of them is refused for what another writes."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import OperationalError

from braid.infra.airflow.one_writer import OneWriter, create_metadata_engine


def together(*methods: str) -> int:
    """How many of some requests that come at once are answered at the same time."""
    inside = most = 0

    async def app(*_: Any) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(5):
            await asyncio.sleep(0)
        inside -= 1

    async def ask() -> None:
        server: Any = OneWriter(app)
        await asyncio.gather(*(server({"type": "http", "method": method}, None, None) for method in methods))

    asyncio.run(ask())
    return most


def test_changes_are_answered_one_after_the_other_and_questions_at_once() -> None:
    assert together("POST", "PATCH", "DELETE", "PUT") == 1
    assert together("GET", "GET", "POST", "POST") == 3


def ours(address: str) -> Engine:
    return create_metadata_engine(address, engine_args={}, connect_args={})


@pytest.fixture
def database(tmp_path: Path) -> str:
    """As Airflow makes it: with a log beside it."""
    address = f"sqlite:///{tmp_path}/airflow.db?timeout=30"
    with create_engine(address).begin() as connection:
        connection.execute(text("PRAGMA journal_mode=WAL"))
        connection.execute(text("CREATE TABLE runs (name TEXT)"))
    return address


def read_then_write(engine: Engine, meanwhile: Callable[[], None]) -> None:
    """What Airflow does to create a backfill: in a savepoint it looks, and then writes."""
    with engine.connect() as connection:
        with connection.begin_nested():
            connection.execute(text("SELECT * FROM runs")).all()
            meanwhile()
            connection.execute(text("INSERT INTO runs VALUES ('backfill')"))
        connection.commit()


def test_who_looks_before_he_writes_is_not_refused_for_what_another_process_writes(database: str) -> None:
    def write() -> None:
        with create_engine(database).begin() as connection:
            connection.execute(text("INSERT INTO runs VALUES ('scheduled')"))

    # So it is without us: refused at once, however long SQLite may wait.
    with pytest.raises(OperationalError, match="database is locked"):
        read_then_write(create_engine(database), write)
    other = threading.Thread(target=write)
    read_then_write(ours(database), other.start)
    other.join(30)
    with create_engine(database).connect() as connection:
        names = connection.execute(text("SELECT name FROM runs")).scalars().all()
    assert names == ["scheduled", "backfill", "scheduled"]
