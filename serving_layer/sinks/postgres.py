"""A view as a table of PostgreSQL: its rows and the position that they come from change in one transaction."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from braid.define.sinks import PostgresSink
from braid.define.view import View
from braid.define.windows import AllTime
from braid.errors import BraidError
from serving_layer.answer.json_values import plain
from serving_layer.memory.changes import CHANGE, Row
from serving_layer.sinks.outgoing import BOUNDS, VERSION, Delivery, Held, State
from serving_layer.sinks.postgres_server import (
    COMPLETE,
    HISTORY,
    KEY,
    POSITIONS,
    REVISION,
    VIEW,
    columns_of,
    connect,
    explained,
    require_columns,
    require_schema,
    storable,
)


class PostgresTable:
    """One table. Its connection is made when it is needed and given up when anything goes wrong."""

    def __init__(self, sink: PostgresSink, view: str) -> None:
        self._sink, self._view = sink, view
        self._connection: psycopg.Connection[Any] | None = None
        self._revision: int | None = None
        self._schema, _, table = sink.table.rpartition(".")
        self._table = sql.Identifier(*filter(None, (self._schema, table)))
        self._positions = sql.Identifier(*filter(None, (self._schema, POSITIONS)))

    def held(self, view: View) -> Held:
        with self._transaction() as cursor:
            self._make_positions(cursor)
            known = self._position(cursor)
            # A table that is not there, or is somebody else's, holds nothing of ours.
            state = self._rows(cursor, view) if KEY in self._columns(cursor) else {}
        self._revision = known
        return Held(state, known or 0)

    def take(self, delivery: Delivery) -> None:
        with self._transaction() as cursor:
            # Waits for whoever delivers in this moment, and sees what they left.
            found = self._position(cursor, lock=True)
            if found != self._revision:
                raise BraidError(
                    f"somebody else wrote revision {found} to {self._sink.name} after {self._revision}: two "
                    "installations must not share a table. It is looked at anew."
                )
            self._fit(cursor, delivery)
            if self._sink.emit != "revisions":
                gone = [*delivery.withdrawn, *delivery.changed]
                cursor.execute(
                    sql.SQL("DELETE FROM {} WHERE _key = ANY(%s::uuid[])").format(self._table), [gone]
                )
            self._write(cursor, delivery)
            self._note(cursor, delivery)
        self._revision = delivery.revision

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def problem(self, view: View, schema: pa.Schema | None) -> str | None:
        """What would keep this sink from working, for who asks before it runs; None when nothing would.

        Without a schema only the names of columns are compared: their types are known when the view is deployed.
        """
        try:
            with self._transaction() as cursor:
                there = self._columns(cursor)
                if not there:
                    require_schema(cursor, self._sink.name, self._schema)
                elif not self._is_ours(cursor):
                    bounds = () if isinstance(view.window, AllTime) else BOUNDS
                    names = (*view.keys, *bounds, *view.measures)
                    known = pa.schema([]) if schema is None else schema
                    needed = {name: there.get(name, "") for name in names} | columns_of(
                        known, self._sink.emit
                    )
                    require_columns(self._sink.name, there, needed)
        except BraidError as error:
            return str(error)
        finally:
            self.close()
        return None

    @contextmanager
    def _transaction(self) -> Iterator["psycopg.Cursor[Any]"]:
        """All of it or nothing. After an error the connection is given up: who knows what state it is in."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = connect(self._sink.dsn)
            with self._connection.transaction(), self._connection.cursor() as cursor:
                yield cursor
        except psycopg.Error as error:
            self.close()
            raise BraidError(f"{self._sink.name}: {explained(self._sink.dsn, error)}") from None
        except BaseException:
            self.close()
            raise

    def _make_positions(self, cursor: "psycopg.Cursor[Any]") -> None:
        """Asked first: who may only write into tables that are there may not create any."""
        cursor.execute("SELECT to_regclass(%s)", [self._positions.as_string(cursor)])
        if cursor.fetchone() == (None,):
            cursor.execute(
                sql.SQL(
                    "CREATE TABLE IF NOT EXISTS {} (sink text PRIMARY KEY, view text NOT NULL, emit text NOT NULL, "
                    "version integer NOT NULL, revision bigint NOT NULL, complete timestamptz, position jsonb NOT "
                    "NULL, delivered timestamptz NOT NULL DEFAULT now())"
                ).format(self._positions)
            )

    def _position(self, cursor: "psycopg.Cursor[Any]", lock: bool = False) -> int | None:
        """The newest revision; None when nothing was ever delivered."""
        waits = sql.SQL(" FOR UPDATE" if lock else "")
        cursor.execute(
            sql.SQL("SELECT revision, emit, view FROM {} WHERE sink = %s").format(self._positions) + waits,
            [self._sink.table],
        )
        row = cursor.fetchone()
        if row is None:
            return None
        if row[2] != self._view:
            raise BraidError(
                f"{self._sink.name} is the table of view {row[2]!r}, and view {self._view!r} cannot write to it too: "
                "name another table, or drop this one and its row in braid_sinks."
            )
        if row[1] != self._sink.emit:
            raise BraidError(
                f"{self._sink.name} holds what emit={row[1]!r} gives, and the definition says {self._sink.emit!r}: "
                "name another table, or drop this one and its row in braid_sinks."
            )
        return int(row[0])

    def _is_ours(self, cursor: "psycopg.Cursor[Any]") -> bool:
        cursor.execute("SELECT to_regclass(%s)", [self._positions.as_string(cursor)])
        return cursor.fetchone() != (None,) and self._position(cursor) is not None

    def _columns(self, cursor: "psycopg.Cursor[Any]") -> dict[str, str]:
        """The table's columns and their types; none when there is no such table."""
        cursor.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass(%s) "
            "AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            [self._table.as_string(cursor)],
        )
        return dict(cursor.fetchall())

    def _fit(self, cursor: "psycopg.Cursor[Any]", delivery: Delivery) -> None:
        """Creates the table, or gives it the columns that the view has now; an index goes with its column."""
        there, needed = self._columns(cursor), columns_of(delivery.schema, self._sink.emit)
        if not there:
            self._create(cursor, delivery, needed)
            return
        if there == needed:
            return
        if self._revision is None:
            require_columns(self._sink.name, there, needed)
        parts = [
            sql.SQL("DROP COLUMN {}").format(sql.Identifier(name))
            for name, kind in there.items()
            if needed.get(name) != kind
        ]
        parts += [
            sql.SQL("ADD COLUMN {} {}").format(sql.Identifier(name), sql.SQL(kind))
            for name, kind in needed.items()
            if there.get(name) != kind
        ]
        cursor.execute(sql.SQL("ALTER TABLE {} ").format(self._table) + sql.SQL(", ").join(parts))
        self._index(
            cursor, delivery, {name: kind for name, kind in needed.items() if there.get(name) != kind}
        )

    def _create(self, cursor: "psycopg.Cursor[Any]", delivery: Delivery, needed: dict[str, str]) -> None:
        """An index on the window and on each key; of texts by their hash, which has no longest length."""
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in needed.items()
        ]
        identity = sql.SQL(
            "PRIMARY KEY (_key, _revision)" if HISTORY.keys() <= needed.keys() else "PRIMARY KEY (_key)"
        )
        cursor.execute(
            sql.SQL("CREATE TABLE {} ({})").format(self._table, sql.SQL(", ").join([*columns, identity]))
        )
        self._index(cursor, delivery, needed)

    def _index(self, cursor: "psycopg.Cursor[Any]", delivery: Delivery, needed: dict[str, str]) -> None:
        for name in ("window_start", *delivery.view.keys):
            if name in needed:
                way = sql.SQL("hash" if needed[name] == "text" else "btree")
                cursor.execute(
                    sql.SQL("CREATE INDEX ON {} USING {} ({})").format(self._table, way, sql.Identifier(name))
                )

    def _rows(self, cursor: "psycopg.Cursor[Any]", view: View) -> State:
        """What the table says now: of a history, the newest word on each row."""
        newest = "DISTINCT ON (_key) " if self._sink.emit == "revisions" else ""
        order = " ORDER BY _key, _revision DESC" if newest else ""
        cursor.execute(sql.SQL(f"SELECT {newest}* FROM {{}}{order}").format(self._table))
        names = [column.name for column in cursor.description or ()]
        zone, hidden, state = view.source.zone, (KEY, VIEW, REVISION, COMPLETE, CHANGE), {}
        for values in cursor:
            row = dict(zip(names, values, strict=True))
            if row.get(CHANGE) != "withdrawn":
                state[str(row[KEY])] = {
                    name: plain(value, zone) for name, value in row.items() if name not in hidden
                }
        return state

    def _write(self, cursor: "psycopg.Cursor[Any]", delivery: Delivery) -> None:
        names = list(columns_of(delivery.schema, self._sink.emit))
        same = {VIEW: delivery.view.name, VERSION: delivery.version, REVISION: delivery.revision,
                COMPLETE: delivery.complete}  # fmt: skip
        rows: list[tuple[str, Row, str]] = [(at, row, "changed") for at, row in delivery.changed.items()]
        if self._sink.emit == "revisions":
            rows += [(at, row, "withdrawn") for at, row in delivery.withdrawn.items()]
        if not rows:
            return
        listed = sql.SQL(", ").join(map(sql.Identifier, names))
        with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(self._table, listed)) as copy:
            for at, row, change in rows:
                full = row | same | {KEY: at, CHANGE: change}
                copy.write_row([storable(full.get(name)) for name in names])

    def _note(self, cursor: "psycopg.Cursor[Any]", delivery: Delivery) -> None:
        cursor.execute(
            sql.SQL(
                "INSERT INTO {} (sink, view, emit, version, revision, complete, position) VALUES (%s, %s, %s, %s, %s, "
                "%s, %s) ON CONFLICT (sink) DO UPDATE SET view = EXCLUDED.view, version = EXCLUDED.version, revision "
                "= EXCLUDED.revision, complete = EXCLUDED.complete, position = EXCLUDED.position, delivered = now()"
            ).format(self._positions),
            [self._sink.table, delivery.view.name, self._sink.emit, delivery.version, delivery.revision,
             delivery.complete, json.dumps(dict(delivery.position))],
        )  # fmt: skip
