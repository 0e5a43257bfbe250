"""Delta tables without Spark: one version as a whole, and the commits that came after it one by one."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from braid.cut import brings_rows
from braid.deploy.store import Version
from braid.errors import NotYet
from braid.runtime import object_store
from braid.tables.commits import TailCommit


@dataclass(frozen=True)
class Added:
    """A file that a commit added, and the values of the partition that it is in."""

    path: str
    partition: dict[str, str | None]


@dataclass(frozen=True)
class Logged:
    """One commit of a table: what its writer said, and the files with rows that were not there before."""

    mark: TailCommit | None
    added: tuple[Added, ...]


@dataclass(frozen=True)
class Pinned:
    """A table at one version: whoever writes meanwhile, it stays as it is."""

    version: int
    dataset: Any

    @property
    def schema(self) -> pa.Schema:
        return self.dataset.schema

    def rows(self, columns: Iterable[str], where: Any = None) -> pa.Table:
        return self.dataset.to_table(columns=list(columns), filter=where)

    def logged(self, version: int) -> Logged | None:
        """Any commit of the table; None when it is still to come, or its retention is over."""
        try:
            with self.dataset.filesystem.open_input_file(f"_delta_log/{version:020d}.json") as file:
                return parse_commit(file.read().decode())
        except FileNotFoundError:
            return None

    def checkpoint(self) -> int:
        """The newest version with a checkpoint, -1 for none: commits may be gone only up to there."""
        try:
            with self.dataset.filesystem.open_input_file("_delta_log/_last_checkpoint") as file:
                return int(json.loads(file.read())["version"])
        except FileNotFoundError:
            return -1

    def mark(self) -> TailCommit | None:
        """The newest metadata of ours; other commits (OPTIMIZE, SET TBLPROPERTIES) are looked past."""
        for version in range(self.version, -1, -1):
            found = self.logged(version)
            if found is None:
                return None
            if found.mark is not None:
                return found.mark
        return None

    def rows_of(self, files: Iterable[Added], columns: Iterable[str]) -> pa.Table:
        """The rows of files that a later commit added."""
        form, system = self.dataset.format, self.dataset.filesystem
        fragments = [form.make_fragment(f.path, system, self._partition(f.partition)) for f in files]
        return ds.FileSystemDataset(fragments, self.schema, form, system).to_table(columns=list(columns))

    def parts(self, days: Any = None) -> list[tuple[date, Any]]:
        """(day, file), of a table that is partitioned by day."""
        return [(_keys(part)["day"], part) for part in self.dataset.get_fragments(filter=days)]

    def files_by_day(self) -> dict[str, date]:
        """File -> the day that it is of."""
        return {part.path: day for day, part in self.parts()}

    def throughs(self, days: Any = None) -> dict[date, datetime]:
        """Day -> the last epoch that it covers, from one row of each: all rows of a day say the same."""
        found: dict[date, datetime] = {}
        for day, part in self.parts(days):
            if day not in found:
                first = part.head(1, columns=["through"])["through"]
                if len(first):
                    found[day] = first[0].as_py()
        return found

    def _partition(self, values: dict[str, str | None]) -> Any:
        known = (
            pc.field(name) == _typed(text, self.schema.field(name).type) for name, text in values.items()
        )
        return next(known)


def open_table(location: str, version: int | None = None) -> DeltaTable | None:
    """As it is now, or as it was; None when there is no table yet."""
    address, options = object_store.delta_address(location), object_store.delta_options(location)
    try:
        return DeltaTable(address, version=version, storage_options=options)
    except TableNotFoundError:
        return None


def require_table(location: str, version: Version) -> DeltaTable:
    """The tail of a version, which its stream creates."""
    table = open_table(location)
    if table is None:
        name = version.view.name
        raise NotYet(
            f"view {name!r} has no table for its version {version.number} yet: run `braid stream {name}`."
        )
    return table


def pin(table: DeltaTable) -> Pinned:
    return Pinned(table.version(), table.to_pyarrow_dataset())


def rows_by_day(location: str) -> dict[date, int]:
    """How many rows a table has of each day, as its own log says: no file is read; one that it does not count is 0."""
    table = open_table(location)
    if table is None:
        return {}
    files = pa.table(table.get_add_actions(flatten=True))
    totals = files.group_by("partition.day").aggregate([("num_records", "sum")])
    return {row["partition.day"]: row["num_records_sum"] or 0 for row in totals.to_pylist()}


def parse_commit(text: str) -> Logged:
    """A file of Delta's own log. Rows that are only written anew (`dataChange` false, a fold) are not new rows."""
    actions = [json.loads(line) for line in text.splitlines() if line]
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    mark = TailCommit.from_json(info.get("userMetadata"))
    adds = [action["add"] for action in actions if "add" in action]
    is_fold = mark is not None and mark.fold
    fresh = [add for add in adds if brings_rows(mark is not None, is_fold, add["dataChange"])]
    return Logged(mark, tuple(Added(unquote(add["path"]), add["partitionValues"]) for add in fresh))


def _keys(fragment: Any) -> dict[str, Any]:
    return dict(ds.get_partition_keys(fragment.partition_expression))


def _typed(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """Delta writes a timestamp as "2024-01-01 10:00:00" or as "2024-01-01T10:00:00.000000Z"; both are UTC."""
    if text is not None and pa.types.is_timestamp(kind):
        moment = datetime.fromisoformat(text)
        return pa.scalar(moment.replace(tzinfo=None), pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return pa.scalar(text).cast(kind)
