"""Delta tables without Spark: one version as a whole, and the commits that came after it one by one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable, Metadata
from deltalake.exceptions import TableNotFoundError

from braid.cut import brings_rows
from braid.runtime import object_store
from braid.tables.commits import KEPT, TailCommit
from braid.tables.delta_log import LAST_CHECKPOINT, NewFile, commit_file, infos_back, parse, parse_checkpoint

# Arrow is imported where it is used: who asks a table's properties, or reads it with DuckDB, needs none of it.
if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Logged:
    """One commit of a table: what its writer said, and the files with rows that were not there before."""

    mark: TailCommit | None
    added: tuple[NewFile, ...]


@dataclass(frozen=True)
class Pinned:
    """A table at one version: whoever writes meanwhile, it stays as it is."""

    version: int
    dataset: Any
    # Delta's own name for the table: another one stands here after a rebuild, though its place is the same.
    table_id: str
    table: DeltaTable

    @property
    def schema(self) -> "pa.Schema":
        return self.dataset.schema

    def rows(self, columns: Iterable[str], where: Any = None) -> "pa.Table":
        return self.dataset.to_table(columns=list(columns), filter=where)

    def text(self, file: str) -> str | None:
        """A file of the table, such as one of its log; None when there is none."""
        try:
            with self.dataset.filesystem.open_input_file(file) as opened:
                return str(opened.read().decode())
        except FileNotFoundError:
            return None

    def stamp(self, version: int) -> tuple[int, int] | None:
        """When the file of a commit was written, and its size; None when it is gone."""
        from pyarrow.fs import FileType

        found = self.dataset.filesystem.get_file_info(commit_file(version))
        return None if found.type == FileType.NotFound else (found.mtime_ns, found.size)

    def logged(self, version: int) -> Logged | None:
        """Any commit of the table; None when it is still to come, or its retention is over."""
        text = self.text(commit_file(version))
        return parse_commit(text) if text is not None else None

    def checkpoint(self) -> int:
        """The newest version with a checkpoint, -1 for none: commits may be gone only up to there."""
        version = parse_checkpoint(self.text(LAST_CHECKPOINT))
        return -1 if version is None else version

    def mark(self) -> TailCommit | None:
        """The newest metadata of ours; other commits (OPTIMIZE, SET TBLPROPERTIES) are looked past."""
        said = (
            TailCommit.from_json(info.get("userMetadata")) for _, info in infos_back(self.text, self.version)
        )
        newest = next((mark for mark in said if mark is not None), None)
        return newest or TailCommit.from_json(self.text(KEPT))

    def rows_of(self, files: Iterable[NewFile], columns: Iterable[str]) -> "pa.Table":
        """The rows of files that a later commit added."""
        from pyarrow.dataset import FileSystemDataset

        form, system = self.dataset.format, self.dataset.filesystem
        fragments = [form.make_fragment(f.path, system, self._partition(f.partition)) for f in files]
        return FileSystemDataset(fragments, self.schema, form, system).to_table(columns=list(columns))

    def parts(self, days: Any = None) -> list[tuple[date, Any]]:
        """(day, file), of a table that is partitioned by day."""
        return [(_keys(part)["day"], part) for part in self.dataset.get_fragments(filter=days)]

    def files_by_day(self) -> dict[str, date]:
        """File -> the day that it is of."""
        return {part.path: day for day, part in self.parts()}

    def throughs(self, days: Any = None) -> dict[date, datetime]:
        """Day -> the last epoch that it covers, from one row of each: all rows of a day say the same."""
        found: dict[date, datetime] = {}
        stated = _stated_throughs(self.table)
        for day, part in self.parts(days):
            if day not in found:
                through = stated[part.path] if part.path in stated else _first_through(part)
                if through is not None:
                    found[day] = through
        return found

    def _partition(self, values: dict[str, str | None]) -> Any:
        from pyarrow.compute import field

        known = (field(name) == _typed(text, self.schema.field(name).type) for name, text in values.items())
        return next(known)


def open_table(location: str, version: int | None = None) -> DeltaTable | None:
    """As it is now, or as it was; None when there is no table yet."""
    address, options = object_store.delta_address(location), object_store.delta_options(location)
    try:
        return DeltaTable(address, version=version, storage_options=options)
    except TableNotFoundError:
        return None


def _metadata(location: str) -> Metadata | None:
    table = open_table(location)
    return table.metadata() if table is not None else None


def has_rows(location: str) -> bool:
    table = open_table(location)
    return table is not None and len(table.file_uris()) > 0


def transaction_number(location: str, app: str) -> int:
    """The newest number that was committed under a Delta transaction id; 0 for none."""
    table = open_table(location)
    return (table.transaction_version(app) or 0) if table is not None else 0


def table_id(location: str) -> str | None:
    """Who a table is: one that takes another's place has an id of its own. None when there is none."""
    metadata = _metadata(location)
    return str(metadata.id) if metadata is not None else None


def properties(location: str) -> dict[str, str]:
    """The properties of a table; none when there is no table."""
    metadata = _metadata(location)
    return dict(metadata.configuration) if metadata is not None else {}


def throughs(location: str) -> dict[date, datetime]:
    """Day -> the last epoch that a base covers; none when there is no table."""
    base = pin_at(location)
    return base.throughs() if base is not None else {}


def pin_at(location: str, version: int | None = None) -> Pinned | None:
    """A table as it is now, or as it was; None when there is no table yet."""
    table = open_table(location, version)
    return pin(table) if table is not None else None


def pin(table: DeltaTable) -> Pinned:
    return Pinned(table.version(), table.to_pyarrow_dataset(), str(table.metadata().id), table)


def bytes_of(table: DeltaTable, days: Iterable[date] | None = None) -> int:
    """How many bytes its files have, as its own log says; of a table that is partitioned by day, those of some days."""
    import pyarrow as pa
    import pyarrow.compute as pc

    files = pa.table(table.get_add_actions(flatten=True))
    if days is not None and len(files):
        files = files.filter(pc.is_in(files["partition.day"], pa.array(days, pa.date32())))
    return int(pc.sum(files["size_bytes"]).as_py() or 0) if len(files) else 0


def rows_by_day(location: str) -> dict[date, int]:
    """How many rows a table has of each day, as its own log says: no file is read; one that it does not count is 0."""
    table = open_table(location)
    if table is None:
        return {}
    import pyarrow as pa

    files = pa.table(table.get_add_actions(flatten=True))
    totals = files.group_by("partition.day").aggregate([("num_records", "sum")])
    return {row["partition.day"]: row["num_records_sum"] or 0 for row in totals.to_pylist()}


def parse_commit(text: str) -> Logged:
    """A file of a tail's log. Rows that are only written anew (`dataChange` false, a fold) are not new rows."""
    commit = parse(0, text)
    mark = TailCommit.from_json(commit.metadata)
    is_news = brings_rows(mark is not None, mark is not None and mark.fold, bool(commit.new))
    return Logged(mark, commit.new if is_news else ())


def _stated_throughs(table: DeltaTable) -> dict[str, datetime]:
    """File -> the cut of its rows, as the table's log has it: to open hundreds of small files takes a second.

    Statistics have milliseconds, as epochs have. Where there are none, or two, the file itself is asked.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    files = pa.table(table.get_add_actions(flatten=True))
    if not {"min.through", "max.through"} <= set(files.column_names):
        return {}
    alike = files.filter(pc.equal(files["min.through"], files["max.through"]))
    return dict(zip(alike["path"].to_pylist(), alike["min.through"].to_pylist(), strict=True))


def _first_through(part: Any) -> datetime | None:
    first = part.head(1, columns=["through"])["through"]
    return first[0].as_py() if len(first) else None


def _keys(fragment: Any) -> dict[str, Any]:
    from pyarrow.dataset import get_partition_keys

    return dict(get_partition_keys(fragment.partition_expression))


def _typed(text: str | None, kind: "pa.DataType") -> "pa.Scalar":
    """Delta writes a timestamp as "2024-01-01 10:00:00" or as "2024-01-01T10:00:00.000000Z"; both are UTC."""
    import pyarrow as pa

    if text is not None and pa.types.is_timestamp(kind):
        moment = datetime.fromisoformat(text)
        return pa.scalar(moment.replace(tzinfo=None), pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return pa.scalar(text).cast(kind)
