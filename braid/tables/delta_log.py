"""Reads a Delta table's own log, commit by commit: milliseconds, where a query over its history takes half a second."""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from braid.runtime import documents

LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
NEAR, AT_ONCE = 50, 16

# The text of a file of a table, by its path in the table; None when there is no such file.
ReadFile = Callable[[str], str | None]


@dataclass(frozen=True)
class NewFile:
    """A file whose rows were not in the table before; its path is relative to the table."""

    path: str
    size: int
    partition: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Transaction:
    """One commit: what its writer said, its rows where that is known, and the partitions of added and removed files.

    A rewrite, such as OPTIMIZE's, adds and removes files and has no new ones. `takes_rows` says that rows are gone,
    and `mark` tells this commit from any other, also from one that took its place.
    """

    version: int
    metadata: str | None
    committed: datetime
    rows: int | None
    added: tuple[dict[str, str], ...]
    removed: tuple[dict[str, str], ...]
    new: tuple[NewFile, ...] = ()
    takes_rows: bool = False
    mark: str = ""
    # Delta's transaction ids with their numbers, and whether the commit changes what the table is.
    turns: Mapping[str, int] = field(default_factory=dict)
    redefines: bool = False
    # The paths of removed files, as the commit has them.
    gone: frozenset[str] = frozenset()


def commit_file(version: int) -> str:
    """Where a commit is, in its table."""
    return f"_delta_log/{version:020d}.json"


def parse(version: int, text: str) -> Transaction:
    """A commit from its file."""
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
            NewFile(unquote(add["path"]), add["size"], add["partitionValues"])
            for add in (action["add"] for action in actions if "add" in action)
            if add["dataChange"]
        ),
        any(action["remove"]["dataChange"] for action in actions if "remove" in action),
        str(info.get("txnId") or info.get("timestamp", "")),
        {action["txn"]["appId"]: action["txn"]["version"] for action in actions if "txn" in action},
        any("metaData" in action or "protocol" in action for action in actions),
        frozenset(action["remove"]["path"] for action in actions if "remove" in action),
    )


def parse_info(text: str) -> dict[str, Any]:
    """Only what a commit says of itself: of the thousands that are read for this, the rest is not worth parsing."""
    found: dict[str, Any] = next(
        (json.loads(line)["commitInfo"] for line in text.splitlines() if '"commitInfo"' in line), {}
    )
    return found


def parse_checkpoint(text: str | None) -> int | None:
    """The version that the newest checkpoint is of."""
    return int(json.loads(text)["version"]) if text is not None else None


def newest_version(table: str) -> int | None:
    """None when there is no table. Searched for, because a table with a commit every second is slow to list."""
    known, step = parse_checkpoint(documents.read(f"{table}/{LAST_CHECKPOINT}")), 1
    if known is None:
        if not _is_there(table, 0):
            return None
        known = 0
    # Commits are numbered without gaps: twice as far while there is one, then half the way back and forth.
    while _is_there(table, known + step):
        known, step = known + step, step * 2
    while step > 1:
        step //= 2
        known += step if _is_there(table, known + step) else 0
    return known


def transaction(table: str, version: int) -> Transaction | None:
    """None when there is no such commit: it is still to come, or its retention is over."""
    text = documents.read(f"{table}/{commit_file(version)}")
    return parse(version, text) if text is not None else None


def transactions(table: str, since: int) -> Iterator[Transaction]:
    """The commits from `since` on, up to the newest."""
    version = since
    while (found := transaction(table, version)) is not None:
        yield found
        version += 1


def infos_back(read: ReadFile, newest: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """(version, what the commit says of itself), newest first, as far as they are kept."""
    for version, text in _texts_back(read, newest):
        if text is None:
            return
        yield version, parse_info(text)


def _texts_back(read: ReadFile, newest: int) -> Iterator[tuple[int, str | None]]:
    """The newest one by one, as most look for those; further back many at once, for stores that take their time."""
    near = range(newest, max(newest - NEAR, -1), -1)
    yield from ((version, read(commit_file(version))) for version in near)
    with ThreadPoolExecutor(AT_ONCE) as readers:
        for first in range(newest - NEAR, -1, -NEAR):
            versions = range(first, max(first - NEAR, -1), -1)
            yield from zip(versions, readers.map(read, map(commit_file, versions)), strict=True)


def _is_there(table: str, version: int) -> bool:
    return documents.exists(f"{table}/{commit_file(version)}")


def _rows(info: dict[str, Any], actions: list[dict[str, Any]]) -> int | None:
    """Only a commit without files is known to have no rows; what others say of themselves is optional."""
    said = info.get("operationMetrics", {}).get("numOutputRows")
    if said is not None and int(said) > 0:
        return int(said)
    return None if any("add" in action for action in actions) else 0


def epoch_of_value(value: str) -> datetime:
    """How Delta writes a partition's time: with a zone or, as older writers do, without one in UTC."""
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def epoch_of_path(path: str) -> datetime:
    """The epoch in a file's path, which is encoded once as a folder's name and once more as a URI."""
    folder = next(part for part in path.split("/") if part.startswith("epoch="))
    return epoch_of_value(unquote(unquote(folder)).removeprefix("epoch="))
