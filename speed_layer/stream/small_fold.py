"""A fold of a tail's closed epochs in memory: a few small files become one for each epoch, without Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from braid.cut import is_beyond
from braid.define.view import View
from braid.runtime import documents
from braid.states.arrow import merge
from braid.tables.appending import Appending
from braid.tables.view_tables import LATE, tail_columns
from speed_layer.stream.totals import refuse_change, totals_in

# What is larger is left to Spark.
MOST_BYTES = 4 * 2**20


@dataclass(frozen=True)
class SmallFold:
    """The files that go, and the rows that take their place, as of a version of the tail."""

    version: int
    files: tuple[dict[str, Any], ...]
    rows: pa.Table


def small_fold(
    name: str,
    view: View,
    tail: Appending,
    epochs: Sequence[datetime],
    through: Mapping[date, datetime],
) -> SmallFold | None:
    """One row for each pane and keys of these epochs, without what is covered; None where there is much of it."""
    table = tail.opened()
    named = pa.table(table.get_add_actions(flatten=True)).select(["path", "size_bytes", "partition.epoch"])
    chosen = named.filter(pc.is_in(named["partition.epoch"], pa.array(epochs, named["partition.epoch"].type)))
    if (pc.sum(chosen["size_bytes"]).as_py() or 0) > MOST_BYTES:
        return None
    files, folded = [], []
    for epoch in epochs:
        mine = chosen.filter(
            pc.equal(chosen["partition.epoch"], pa.scalar(epoch, named["partition.epoch"].type))
        )
        rows = _left(_rows(tail, mine["path"].to_pylist()), epoch, through)
        merged = merge(view, rows, totals=(LATE,))
        refuse_change(name, totals_in(rows), totals_in(merged))
        stamped = merged.append_column(
            "epoch", pa.array([epoch] * len(merged), tail.schema.field("epoch").type)
        )
        folded.append(stamped.select(tail_columns(view)))
        files += [tail.file(epoch, row["path"], row["size_bytes"]) for row in mine.to_pylist()]
    return SmallFold(table.version(), tuple(files), pa.concat_tables(folded))


def _rows(tail: Appending, paths: Sequence[str]) -> pa.Table:
    """The rows of some files of one epoch, which is in the names of their folders and not in them."""
    schema = tail.schema.remove(tail.schema.get_field_index(tail.by))
    place = documents.local_path(tail.table)
    parts = [pq.ParquetFile(place / unquote(path)).read(schema.names).cast(schema) for path in paths]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _left(rows: pa.Table, epoch: datetime, through: Mapping[date, datetime]) -> pa.Table:
    covered = [day for day, cut in through.items() if not is_beyond(epoch, cut)]
    return rows.filter(pc.invert(pc.is_in(rows["day"], pa.array(covered, pa.date32())))) if covered else rows
