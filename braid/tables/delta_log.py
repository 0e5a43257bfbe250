"""Reads a Delta table's own log, commit by commit: milliseconds, where a query over its history takes half a second."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from braid.errors import BraidError
from braid.tables.storage import Storage


@dataclass(frozen=True)
class NewFile:
    """A file whose rows were not in the table before; its path is relative to the table."""

    path: str
    size: int


@dataclass(frozen=True)
class Transaction:
    """One commit: what its writer said, its rows where that is known, and the partitions of added and removed files.

    A rewrite, such as OPTIMIZE's, adds and removes files and has no new ones. `takes_rows` says that rows are gone.
    """

    version: int
    metadata: str | None
    committed: datetime
    rows: int | None
    added: tuple[dict[str, str], ...]
    removed: tuple[dict[str, str], ...]
    new: tuple[NewFile, ...] = ()
    takes_rows: bool = False


def newest_version(storage: Storage, table: str) -> int | None:
    """None when there is no table. Searched for, because a table with a commit every second is slow to list."""
    known, step = _checkpoint(storage, table), 1
    if known is None:
        if not storage.exists(_file(table, 0)):
            return None
        known = 0
    # Commits are numbered without gaps: twice as far while there is one, then half the way back and forth.
    while storage.exists(_file(table, known + step)):
        known, step = known + step, step * 2
    while step > 1:
        step //= 2
        known += step if storage.exists(_file(table, known + step)) else 0
    return known


def transaction(storage: Storage, table: str, version: int) -> Transaction | None:
    """None when there is no such commit: it is still to come, or its retention is over."""
    text = storage.glance(_file(table, version))
    if text is None:
        return None
    actions = [json.loads(line) for line in text.splitlines() if line]
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return Transaction(
        version,
        info.get("userMetadata"),
        datetime.fromtimestamp(info.get("timestamp", 0) / 1000, UTC),
        _rows(info, actions),
        tuple(action["add"]["partitionValues"] for action in actions if "add" in action),
        tuple(action["remove"].get("partitionValues", {}) for action in actions if "remove" in action),
        tuple(
            NewFile(unquote(action["add"]["path"]), action["add"]["size"])
            for action in actions
            if "add" in action and action["add"]["dataChange"]
        ),
        any(action["remove"]["dataChange"] for action in actions if "remove" in action),
    )


def created_with(storage: Storage, table: str) -> dict[str, str]:
    """The properties that a table was created with."""
    text = storage.glance(_file(table, 0))
    if text is None:
        raise BraidError(
            f"the first commit of the table {table} is gone, and nothing was written to it since: move it away, and "
            "run this again to begin anew from the log."
        )
    actions = map(json.loads, text.splitlines())
    found: dict[str, str] = next((a["metaData"]["configuration"] for a in actions if "metaData" in a), {})
    return found


def transactions(storage: Storage, table: str, since: int) -> Iterator[Transaction]:
    """The commits from `since` on, up to the newest."""
    version = since
    while (found := transaction(storage, table, version)) is not None:
        yield found
        version += 1


def _file(table: str, version: int) -> str:
    return f"{table}/_delta_log/{version:020d}.json"


def _checkpoint(storage: Storage, table: str) -> int | None:
    text = storage.glance(f"{table}/_delta_log/_last_checkpoint")
    return int(json.loads(text)["version"]) if text is not None else None


def _rows(info: dict[str, Any], actions: list[dict[str, Any]]) -> int | None:
    """Only a commit without files is known to have no rows; what others say of themselves is optional."""
    said = info.get("operationMetrics", {}).get("numOutputRows")
    if said is not None and int(said) > 0:
        return int(said)
    return None if any("add" in action for action in actions) else 0
