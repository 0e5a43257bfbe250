"""How PostgreSQL is reached and what it calls things: waits that end, types, and errors without secrets."""

from collections.abc import Callable
from typing import Any

import psycopg
import pyarrow as pa

from braid.errors import BraidError
from braid.runtime.settings import secret, variable_of
from serving_layer.answer.numbers import STATUS
from serving_layer.memory.changes import CHANGE
from serving_layer.sinks.outgoing import VERSION

KEY, VIEW, REVISION, COMPLETE = "_key", "_view", "_revision", "_complete"
OURS = {KEY: "uuid", VIEW: "text", VERSION: "integer", REVISION: "bigint", STATUS: "text",
        COMPLETE: "timestamp with time zone"}  # fmt: skip
HISTORY = {CHANGE: "text"}
POSITIONS = "braid_sinks"
TYPES: dict[Callable[[pa.DataType], bool], str] = {
    pa.types.is_integer: "bigint",
    pa.types.is_floating: "double precision",
    pa.types.is_boolean: "boolean",
    pa.types.is_date: "date",
}
# Every wait has an end: a server that does not answer is tried again later.
WAITS = {
    "connect_timeout": "10", "tcp_user_timeout": "20000", "keepalives_idle": "10", "keepalives_interval": "5",
    "options": "-c lock_timeout=10s -c statement_timeout=30min -c idle_in_transaction_session_timeout=120s "
    "-c timezone=UTC",
}  # fmt: skip


def columns_of(schema: pa.Schema, emit: str) -> dict[str, str]:
    """The columns of a view's table and their types, as PostgreSQL calls them."""
    numbers = {field.name: type_of(field.type) for field in schema}
    return numbers | OURS | (HISTORY if emit == "revisions" else {})


def require_columns(sink: str, there: dict[str, str], needed: dict[str, str]) -> None:
    """Refuses a table that somebody else made for something else."""
    wrong = [f"{name} {kind}".strip() for name, kind in needed.items() if there.get(name) != kind]
    more = [name for name in there if name not in needed]
    if wrong or more:
        said = [f"it lacks {', '.join(wrong)}"] if wrong else []
        said += [f"it has {', '.join(more)}"] if more else []
        raise BraidError(
            f"{sink}: the table exists, is not Braid's, and has other columns: {' and '.join(said)}. Name another "
            "table, or drop this one."
        )


def require_schema(cursor: "psycopg.Cursor[Any]", sink: str, schema: str) -> None:
    """Refuses a table that could not be made: its schema is not there, or not for this user to make tables in."""
    cursor.execute(
        "SELECT coalesce(nullif(%s, ''), current_schema()), to_regnamespace(coalesce(nullif(%s, ''), "
        "current_schema())) IS NOT NULL, current_user",
        [schema, schema],
    )
    name, is_there, user = cursor.fetchone() or (schema, False, "")
    if not is_there:
        raise BraidError(f'{sink}: schema "{name}" does not exist: create it, or name another one.')
    cursor.execute("SELECT has_schema_privilege(%s, 'CREATE')", [name])
    if cursor.fetchone() != (True,):
        raise BraidError(
            f'{sink}: user {user!r} may not create tables in schema "{name}": GRANT CREATE ON SCHEMA {name} TO {user}.'
        )


def type_of(kind: pa.DataType) -> str:
    """An exact type for each that a key or a presented number can have."""
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return f"timestamp {'with' if kind.tz else 'without'} time zone"
    return next((name for fits, name in TYPES.items() if fits(kind)), "text")


def connect(dsn: str) -> "psycopg.Connection[Any]":
    """A connection to the database behind a name; each of its transactions is begun by hand."""
    try:
        options = psycopg.conninfo.conninfo_to_dict(secret("dsn", dsn))
    except psycopg.Error:
        # What libpq says of a text that it does not understand quotes it, with the password.
        raise BraidError(
            f"{variable_of('dsn', dsn)} is not an address of PostgreSQL: write it as "
            "'postgresql://USER:PASSWORD@HOST:5432/DATABASE'."
        ) from None
    text = psycopg.conninfo.make_conninfo(**WAITS | {name: str(value) for name, value in options.items()})
    return psycopg.connect(text, autocommit=True)


def explained(dsn: str, error: psycopg.Error) -> str:
    """What the server says, in one line and without the secret."""
    said = " ".join(str(error).split()) or type(error).__name__
    try:
        password = str(psycopg.conninfo.conninfo_to_dict(secret("dsn", dsn)).get("password") or "")
    except (psycopg.Error, BraidError):
        password = ""
    return said.replace(password, "(not shown)") if password else said


def storable(value: Any) -> Any:
    """PostgreSQL's texts hold every character but one."""
    return value.replace("\x00", "\u2400") if isinstance(value, str) else value
