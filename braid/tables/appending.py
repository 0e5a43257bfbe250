"""Appends rows to a Delta table of this machine without Spark: a Parquet file for each partition, and a commit file.

A commit is a file whose name must not be taken. It is linked into its place whole, as Spark does it here too
(`braid.LocalCommits`), so that either the rows are in the table with all that is said of them, or they are not.
"""

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from braid.runtime import documents
from braid.tables import delta_rs
from braid.tables.delta_log import LAST_CHECKPOINT, Transaction, commit_file, parse_checkpoint, transaction

MILLISECOND = timedelta(milliseconds=1)
NO_ROWS: pa.Table = pa.table({})
# The newest version of Delta's protocol for writers that is known here.
MOST = 2


@dataclass
class Appending:
    """A table that is partitioned by one column of days or times, and the newest version of it that is known."""

    table: str
    schema: pa.Schema
    by: str
    version: int
    # How many of the first columns have statistics, as the table's own properties ask for.
    described: int = 3
    checkpoint_every: int = 300
    _checked: int = 0
    _opened: DeltaTable | None = None

    @property
    def is_known(self) -> bool:
        """Whether the newest commit that is known is there; one that was cleaned up says nothing of what follows."""
        return documents.exists(f"{self.table}/{commit_file(self.version)}")

    def append(
        self,
        rows: pa.Table,
        said: str,
        turn: tuple[str, int] | None,
        meet: Callable[[Transaction], None],
        replaced: Sequence[Mapping[str, Any]] = (),
    ) -> int:
        """Commits rows with what is said of them; the version that this made.

        Each commit that came since the last look is met first: whoever asks may refuse to go on after it. With files
        that are `replaced` the rows are those of these files, written anew.
        """
        news = not replaced
        added = [self._write(moment, part) | {"dataChange": news} for moment, part in self._parts(rows)]
        removed = [{"remove": _removed(file)} for file in replaced]
        numbered = (
            [] if turn is None else [{"txn": {"appId": turn[0], "version": turn[1], "lastUpdated": _now()}}]
        )
        while True:
            info = self._info(said, added, "Append" if news else "Overwrite")
            actions = [{"commitInfo": info}, *numbered, *({"add": one} for one in added), *removed]
            text = "".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions)
            if documents.create(f"{self.table}/{commit_file(self.version + 1)}", text):
                self.version += 1
                return self.version
            other = transaction(self.table, self.version + 1)
            if other is None:
                raise RuntimeError(
                    f"commit {self.version + 1} of {self.table} is gone the moment after it was made"
                )
            meet(other)
            self.version += 1

    @property
    def checkpoint_is_due(self) -> bool:
        """Whether the next commit is one at which Spark would make a checkpoint."""
        return (self.version + 1) % self.checkpoint_every == 0

    def opened(self) -> DeltaTable:
        """The table with its files, as it is now."""
        if self._opened is None:
            self._opened = delta_rs.open_table(self.table)
        else:
            self._opened.update_incremental()
        if self._opened is None:
            raise RuntimeError(f"the table {self.table} is gone")
        return self._opened

    def tend(self) -> None:
        """Makes a checkpoint of the table's log when enough commits have come since the last one.

        Whoever opens the table reads what is between a checkpoint and the end, and Spark makes one only at commits of
        its own. Commits that are older than the table keeps them go then, as they do after a checkpoint of Spark's.
        """
        if self.version - self._checked < self.checkpoint_every:
            return
        known = parse_checkpoint(documents.read(f"{self.table}/{LAST_CHECKPOINT}"))
        self._checked = 0 if known is None else known
        if self.version - self._checked >= self.checkpoint_every:
            table = self.opened()
            table.create_checkpoint()
            table.cleanup_metadata()
            self._checked = table.version()

    def _parts(self, rows: pa.Table) -> list[tuple[date | None, pa.Table]]:
        """The rows of each partition, as the table has them; a column that they lack is null."""
        if not len(rows):
            return []
        known = set(rows.column_names)
        columns = [
            rows[one.name] if one.name in known else pa.nulls(len(rows), one.type) for one in self.schema
        ]
        typed = pa.table(columns, names=self.schema.names).cast(self.schema)
        values = pc.unique(typed[self.by])
        if len(values) == 1:
            return [(values[0].as_py(), typed.drop_columns(self.by))]
        return [
            (value.as_py(), typed.filter(_is(typed[self.by], value)).drop_columns(self.by))
            for value in values
        ]

    def _write(self, value: date | None, rows: pa.Table) -> dict[str, Any]:
        """One file, and the action that adds it."""
        path = f"{self.by}={_folder(value)}/part-00000-{uuid.uuid4()}.c000.zstd.parquet"
        file = documents.local_path(self.table) / path
        file.parent.mkdir(exist_ok=True)
        pq.write_table(rows, file, compression="zstd", store_schema=False, store_decimal_as_integer=True)
        return self.file(value, quote(path, safe="/="), file.stat().st_size) | {
            "modificationTime": _now(), "dataChange": True,
            "stats": json.dumps(statistics(rows, rows.column_names[: self.described])),
        }  # fmt: skip

    def file(self, value: date | None, path: str, size: int) -> dict[str, Any]:
        """A file of a partition, as a commit names it."""
        return {"path": path, "partitionValues": {self.by: _partition_value(value)}, "size": size}

    def _info(self, said: str, added: list[dict[str, Any]], mode: str) -> dict[str, Any]:
        rows = sum(json.loads(one["stats"])["numRecords"] for one in added)
        metrics = {
            "numFiles": str(len(added)),
            "numOutputRows": str(rows),
            "numOutputBytes": str(sum(one["size"] for one in added)),
        }
        return {
            "timestamp": _now(), "operation": "WRITE",
            "operationParameters": {"mode": mode, "partitionBy": "[]"},
            "readVersion": self.version, "isolationLevel": "Serializable", "isBlindAppend": mode == "Append",
            "operationMetrics": metrics, "userMetadata": said, "engineInfo": "Braid", "txnId": str(uuid.uuid4()),
        }  # fmt: skip


def appending(table: str, by: str) -> Appending | None:
    """How to append to a table; None where this is left to Spark: on an object store, or a table that asks for more.

    What a writer has to know beyond Delta's second version, such as other names of columns, nobody here has asked for.
    """
    known = delta_rs.open_table(table) if documents.is_local(table) else None
    if known is None or known.protocol().min_writer_version > MOST:
        return None
    asked = known.metadata().configuration
    return Appending(
        table, known.to_pyarrow_dataset().schema, by, known.version(),
        int(asked.get("delta.dataSkippingNumIndexedCols", 32)), int(asked.get("delta.checkpointInterval", 10)),
    )  # fmt: skip


def statistics(rows: pa.Table, columns: Sequence[str]) -> dict[str, Any]:
    """What Delta keeps of a file so that readers may leave it out: how many rows, and the ranges of columns."""
    ranges = {name: pc.min_max(rows[name]).as_py() for name in columns if _is_ranged(rows[name].type)}
    known: Mapping[str, Any] = {name: found for name, found in ranges.items() if found["min"] is not None}
    return {
        "numRecords": len(rows),
        "minValues": {name: _stated(found["min"]) for name, found in known.items()},
        "maxValues": {name: _stated(_up(found["max"])) for name, found in known.items()},
        "nullCount": {name: rows[name].null_count for name in columns},
    }


def _is_ranged(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_integer(kind))


def _up(value: Any) -> Any:
    """A time as statistics have it, in milliseconds, is not to be before the largest one."""
    return value + MILLISECOND if isinstance(value, datetime) and value.microsecond % 1000 else value


def _stated(value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"
    return value.isoformat() if isinstance(value, date) else value


def _removed(file: Mapping[str, Any]) -> dict[str, Any]:
    return {**file, "deletionTimestamp": _now(), "dataChange": False, "extendedFileMetadata": True}


def _partition_value(value: date | None) -> str | None:
    """A day, or a moment in UTC, as Delta writes it."""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    return None if value is None else value.isoformat()


def _folder(value: date | None) -> str:
    """The same in a folder's name, as Spark writes it: without colons, and without the zeros of a second."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ").replace(":", "%3A")
    return "__HIVE_DEFAULT_PARTITION__" if value is None else value.isoformat()


def _is(column: pa.ChunkedArray, value: pa.Scalar) -> pa.ChunkedArray:
    return pc.equal(column, value) if value.is_valid else pc.is_null(column)


def _now() -> int:
    return time.time_ns() // 1_000_000
