"""The one DuckDB in memory of a process: its limits, and a way to stop queries from another thread."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TypeVar

import duckdb

Connection = duckdb.DuckDBPyConnection
Result = TypeVar("Result")


class StoppedError(Exception):
    """Whoever asked for this waits for it no more."""


class Stoppable:
    """Work in one thread whose queries can be stopped from another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[Connection] = []
        self._is_stopped = False

    def run(self, work: Callable[[], Result]) -> Result:
        token = _WORK.set(self)
        try:
            return work()
        finally:
            _WORK.reset(token)

    def stop(self) -> None:
        """Interrupts what runs and refuses what would begin; a query that is about to begin takes another call."""
        with self._lock:
            self._is_stopped = True
            for connection in self._running:
                connection.interrupt()

    @contextmanager
    def using(self, connection: Connection) -> Iterator[None]:
        with self._lock:
            if self._is_stopped:
                raise StoppedError
            self._running.append(connection)
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(connection)


_WORK: ContextVar[Stoppable | None] = ContextVar("work", default=None)


@contextmanager
def cursor() -> Iterator[Connection]:
    """A cursor has its own registered tables: calls that come at the same time do not meet."""
    work = _WORK.get()
    with _process_wide().cursor() as connection:
        if work is None:
            yield connection
        else:
            with work.using(connection):
                yield connection


def limit_database(memory_bytes: int, threads: int) -> None:
    """What all queries of this process may take together; one that needs more fails, and nothing is spilled to disk."""
    database = _process_wide()
    database.execute(f"SET memory_limit = '{memory_bytes} bytes'")
    database.execute(f"SET threads = {threads}")
    database.execute("SET temp_directory = ''")


@cache
def _process_wide() -> Connection:
    """Opening a database takes longer than most questions do: one, in memory, for all of them."""
    return duckdb.connect()
