"""A view as files in a folder: one file a delivery, there as a whole or not at all, named after its revision."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from braid.define.sinks import FilesSink
from braid.define.view import View
from braid.errors import BraidError
from braid.states.arrow import INSTANT
from serving_layer.answer.json_values import plain_rows, typed_array
from serving_layer.sinks.controls import last_revision, note_revision
from serving_layer.sinks.kafka_topic import held_by
from serving_layer.sinks.outgoing import BOUNDS, Delivery, Held

# What a record says beside keys, window and numbers; each is a column of a Parquet file.
SAID = {
    "view": pa.string(), "version": pa.int32(), "revision": pa.int64(), "change": pa.string(),
    "status": pa.string(), "complete": INSTANT,
}  # fmt: skip


class Folder:
    """One folder. A file that is there is never changed."""

    def __init__(self, sink: FilesSink, place: str) -> None:
        self._sink, self._place = sink, place
        self._path = Path(sink.path).expanduser()

    def held(self, view: View) -> Held:
        with self._explained():
            self._path.mkdir(parents=True, exist_ok=True)
            for draft in self._path.glob(".*.draft"):
                draft.unlink()
            found = held_by(self._records(view), view.name)
        # Whoever takes files away has read their revisions.
        return replace(found, revision=max(found.revision, last_revision(self._place)))

    def take(self, delivery: Delivery) -> None:
        if delivery.is_empty:
            return
        note_revision(self._place, delivery.revision)
        name = f"{delivery.view.name}-{delivery.revision:012d}.{self._sink.format}"
        draft = self._path / f".{name}.draft"
        with self._explained():
            if self._sink.format == "jsonl":
                draft.write_text("".join(json.dumps(record) + "\n" for record in delivery.records()))
            else:
                pq.write_table(table_of(delivery), draft, compression="zstd")
            os.replace(draft, self._path / name)

    def close(self) -> None:
        """Nothing is kept open."""

    def problem(self) -> str | None:
        try:
            with self._explained():
                self._path.mkdir(parents=True, exist_ok=True)
                if not os.access(self._path, os.W_OK | os.X_OK):
                    raise PermissionError(13, "Permission denied", str(self._path))
        except BraidError as error:
            return str(error)
        return None

    def _records(self, view: View) -> Iterator[dict[str, Any]]:
        for file in sorted(self._path.glob(f"{view.name}-*.{self._sink.format}")):
            if self._sink.format == "jsonl":
                yield from map(json.loads, file.read_text().splitlines())
                continue
            for row in plain_rows(pq.read_table(file), view.source.zone):
                said = {name: row.pop(f"_{name}") for name in SAID}
                bounds = {name: row.pop(name, None) for name in BOUNDS}
                keys = json.loads(row.pop("_keys"))
                numbers = {name: value for name, value in row.items() if name not in keys}
                yield said | bounds | {"keys": keys, "numbers": numbers}

    def _explained(self) -> "_Explained":
        return _Explained(self._sink)


class _Explained:
    """A file system's complaint as one sentence."""

    def __init__(self, sink: FilesSink) -> None:
        self._sink = sink

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError | pa.ArrowException | ValueError):
            raise BraidError(
                f"{self._sink.name} cannot be used ({error}): see that the folder is yours to write, and holds only "
                "what Braid put there."
            ) from None


def table_of(delivery: Delivery) -> pa.Table:
    """A delivery as a table with a type for each column."""
    records = list(delivery.records())
    columns: dict[str, pa.Array] = {
        f"_{name}": typed_array([record[name] for record in records], kind) for name, kind in SAID.items()
    }
    columns["_keys"] = pa.array([json.dumps(record["keys"]) for record in records], pa.string())
    for field in delivery.schema:
        columns[field.name] = typed_array([_value(record, field.name) for record in records], field.type)
    return pa.table(columns)


def _value(record: dict[str, Any], name: str) -> Any:
    if name in BOUNDS:
        return record[name]
    return record["keys"][name] if name in record["keys"] else record["numbers"].get(name)
