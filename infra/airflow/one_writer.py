"""How a local Airflow's processes share their SQLite file, which takes one writer at a time: none waits in vain.

Airflow finds both parts in its folder, as its local settings and as a plugin.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

READS = ("GET", "HEAD", "OPTIONS")


class OneWriter:
    """Lets the API server answer those who change something one after the other.

    Airflow writes who asked for a change in the event loop itself. While that waits for the file, whoever has written
    to it in another thread is not called to commit: both would stand until SQLite gives up, and one would be refused.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in READS:
            await self._app(scope, receive, send)
            return
        async with self._turn:
            await self._app(scope, receive, send)


def create_metadata_engine(
    sql_alchemy_conn: str, *, engine_args: dict[str, Any], connect_args: dict[str, Any]
) -> "Engine":
    """Airflow's own, whose savepoints begin with the right to write."""
    from sqlalchemy import create_engine, event

    engine = create_engine(sql_alchemy_conn, connect_args=connect_args, **engine_args)
    event.listen(engine, "savepoint", _begin_to_write)
    return engine


def _begin_to_write(connection: "Connection", _: str | None) -> None:
    """A savepoint alone begins to read; if another process commits before it writes, it would be refused at once."""
    opened = connection.connection.dbapi_connection
    if opened is not None and not opened.in_transaction:
        opened.execute("BEGIN IMMEDIATE")
