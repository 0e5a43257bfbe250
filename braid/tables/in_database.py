"""Delta tables without Spark: their columns with their types, and one version in DuckDB, read in bounded memory."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from braid.define.schema import double_quoted
from braid.tables.delta_rs import open_table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection

# What a question may take; what it needs beyond that it keeps on disk while it runs.
MEMORY = "1GB"

_SIMPLE = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


@contextmanager
def opened(name: str, location: str) -> "Iterator[DuckDBPyConnection | None]":
    """A database with the table under this name; None when there is no such table yet.

    Only the columns that a question names are read. A table on this machine is read by DuckDB alone: to import
    Arrow's datasets takes longer than most questions do.
    """
    import duckdb

    table = open_table(location)
    if table is None:
        yield None
        return
    with TemporaryDirectory(prefix="braid-table-") as aside, duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.execute(f"SET memory_limit = '{MEMORY}'")
        database.execute(f"SET temp_directory = '{aside}'")
        database.execute(f"SET VARIABLE version = {table.version()}")
        files = table.file_uris()
        if files and not _is_plain(location, files):
            database.register(name, table.to_pyarrow_dataset())
        else:
            _show(database, name, table, files)
        yield database


def version_of(database: "DuckDBPyConnection") -> int:
    """The version of the table that is open: what was committed later is not in it."""
    ((version,),) = database.sql("SELECT getvariable('version')").fetchall()
    return int(version)


def _is_plain(location: str, files: list[str]) -> bool:
    """Whether the files are on this machine, under names that DuckDB reads as they are written, and in days."""
    readable = "://" not in location and not set(location) & set("*?[")
    return readable and all("/day=" in file for file in files) and Path(files[0]).is_file()


def _show(database: "DuckDBPyConnection", name: str, table: "DeltaTable", files: list[str]) -> None:
    columns = [field.name for field in table.schema().fields]
    present: set[str] = set()
    source = ""
    if files:
        # Files that are older than a column do not have it.
        found = database.read_parquet(files, hive_partitioning=True, union_by_name=True)
        found.create_view("_files")
        present, source = set(found.columns), "FROM _files"
    typed = {"day": "CAST(day AS DATE)"}
    quoted = {column: double_quoted(column) for column in columns}
    shown = [
        f"{typed.get(column, quoted[column]) if column in present else 'NULL'} AS {quoted[column]}"
        for column in columns
    ]
    database.execute(f'CREATE VIEW "{name}" AS SELECT {", ".join(shown)} {source or "WHERE false"}')


def column_types(location: str) -> dict[str, str]:
    """Column -> its type as Spark's `simpleString` writes it; none when there is no table."""
    table = open_table(location)
    fields = json.loads(table.schema().to_json())["fields"] if table is not None else []
    return {field["name"]: _simple(field["type"]) for field in fields}


def _simple(kind: Any) -> str:
    """A type of Delta's schema in Spark's short form."""
    if isinstance(kind, str):
        return _SIMPLE.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{_simple(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_simple(kind['keyType'])},{_simple(kind['valueType'])}>"
    return f"struct<{','.join(one['name'] + ':' + _simple(one['type']) for one in kind['fields'])}>"
