"""The columns of a Delta table with their types, in Spark's short form and without Spark."""

import json
from typing import Any

from braid.tables.delta_rs import open_table

_SIMPLE = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


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
