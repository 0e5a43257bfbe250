"""Read-only SQL over the views as they are served: each view is a table of its numbers."""

import re
from collections.abc import Iterable
from datetime import datetime

import duckdb
import pyarrow as pa

from braid.define.windows import AllTime
from braid.errors import BraidError
from braid.runtime.settings import Settings
from serving_layer.answer.answers import ask, shown
from serving_layer.answer.reader import FromTables, active_version
from serving_layer.answer.request import Request

# Nothing but the views can be read, nothing can be written, and no statement can change that.
CLOSED = (
    "SET TimeZone = 'UTC'",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def run(
    settings: Settings,
    views: Iterable[str],
    text: str,
    start: datetime | None = None,
    end: datetime | None = None,
) -> pa.Table:
    """The result of one SELECT. Of views with windows only those that begin in [start, end) are in their tables."""
    known = sorted(views)
    with duckdb.connect() as database:
        _require_reading(database, text)
        for name in known:
            # A name that only looks like a view's costs the reading of that view, and nothing else.
            if re.search(rf"\b{name}\b", text, re.IGNORECASE):
                database.register(name, numbers_of(settings, name, start, end))
        for statement in CLOSED:
            database.execute(statement)
        try:
            return database.sql(text).to_arrow_table()
        except duckdb.Error as error:
            raise BraidError(_said(error, known)) from None


def numbers_of(settings: Settings, name: str, start: datetime | None, end: datetime | None) -> pa.Table:
    """Keys, window_start and window_end (but for all time), measures, `_status`, `_events` and `_in_tail`."""
    version = active_version(settings, name)
    bounded = Request() if isinstance(version.view.window, AllTime) else Request(start, end)
    return shown(ask(FromTables(settings, version), bounded), parts=True)


def _require_reading(database: duckdb.DuckDBPyConnection, text: str) -> None:
    try:
        statements = database.extract_statements(text)
    except duckdb.Error as error:
        raise BraidError(_said(error, ())) from None
    if len(statements) != 1:
        raise BraidError(f"write one statement, not {len(statements)}: `select ... from VIEW ...`.")
    if statements[0].type != duckdb.StatementType.SELECT:
        raise BraidError("views can only be read: write `select ... from VIEW ...`.")


def _said(error: duckdb.Error, known: Iterable[str]) -> str:
    """What the database says, in one line, and which tables there are when it misses one."""
    said = " ".join(str(error).split())
    missing = "does not exist" in said and "Table with name" in said
    return f"{said} The views are: {', '.join(known)}." if missing else said
