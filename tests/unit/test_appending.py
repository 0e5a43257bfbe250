"""Rows that are appended to a Delta table without Spark: whole or not at all, after others, and read by everybody."""

import json
import os
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from braid import View, count, session, sum_, tumbling
from braid.cut import is_beyond
from braid.define.source import Source
from braid.errors import BraidError
from braid.runtime import documents
from braid.tables.appending import Appending, appending, statistics
from braid.tables.delta_log import Transaction, commit_file, epoch_of_path, transaction
from braid.tables.view_tables import LATE, tail_columns
from speed_layer.jobs.batch_writer import BatchWriter
from speed_layer.stream.small_fold import small_fold
from speed_layer.stream.totals import totals_in

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
INSTANT = pa.timestamp("us", "UTC")
events = Source(
    name="events", kafka_topic="events", schema="time timestamp, url string, n bigint", event_time="time"
)
hits = View(
    name="hits",
    source=events,
    keys=("url",),
    window=tumbling("1 minute"),
    measures={"n": count(), "sum": sum_("n")},
)
stays = View(
    name="stays", source=events, keys=("url",), window=session(gap="5 minutes"), measures={"n": count()}
)
SCHEMA = pa.schema(
    {
        "epoch": INSTANT, "day": pa.date32(), "pane": INSTANT, LATE: pa.int64(), "url": pa.string(),
        "count": pa.int64(), "sum_n": pa.decimal128(38, 0),
    }
)  # fmt: skip


def table_at(folder: Path, schema: pa.Schema = SCHEMA, **properties: str) -> Appending:
    DeltaTable.create(str(folder), schema=schema, partition_by=["epoch"], configuration=properties)
    found = appending(str(folder), "epoch")
    assert found is not None
    return found


def rows(number: int, minute: int = 0, day: date = date(2026, 3, 1)) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "epoch": NOON + minute * MINUTE, "day": day, "pane": NOON + n % 3 * MINUTE, LATE: n % 2,
                "url": (None, "", "/a")[n % 3], "count": 1, "sum_n": Decimal(n),
            }
            for n in range(number)
        ],
        SCHEMA,
    )  # fmt: skip


def test_days_are_partitions_too_and_a_column_that_is_not_there_is_null(tmp_path: Path) -> None:
    schema = pa.schema({"n": pa.int64(), "text": pa.string(), "day": pa.date32()})
    DeltaTable.create(str(tmp_path), schema=schema, partition_by=["day"])
    table = appending(str(tmp_path), "day")
    assert table is not None
    days = [date(2026, 3, 1), None, date(2026, 3, 2), date(2026, 3, 1)]
    given = pa.table({"day": pa.array(days, pa.date32()), "n": [1, 2, 3, 4], "unknown": [0] * 4})
    table.append(given, "rows", None, goes_on)
    read = DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("n")
    assert read["n"].to_pylist() == [1, 2, 3, 4]
    assert read["day"].to_pylist() == days
    assert read["text"].null_count == 4


def goes_on(other: Transaction) -> None:
    return None


def test_rows_are_there_with_what_is_said_of_them_and_all_readers_see_the_same(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    both = pa.concat_tables([rows(5), rows(3, minute=1)])
    assert table.append(both, "first", None, goes_on) == 1
    assert table.append(pa.table({}), "nothing", None, goes_on) == 2
    read = DeltaTable(str(tmp_path)).to_pyarrow_table().select(SCHEMA.names)
    order = [(name, "ascending") for name in ("epoch", "sum_n")]
    assert read.sort_by(order).to_pylist() == both.sort_by(order).to_pylist()
    first, second = (transaction(str(tmp_path), version) for version in (1, 2))
    assert first is not None
    assert second is not None
    assert (first.metadata, first.rows, second.metadata, second.rows) == ("first", 8, "nothing", 0)
    assert {epoch_of_path(file.path) for file in first.new} == {NOON, NOON + MINUTE}


def test_a_commit_of_another_is_met_and_never_overwritten(tmp_path: Path) -> None:
    ours, theirs = table_at(tmp_path), appending(str(tmp_path), "epoch")
    assert theirs is not None
    theirs.append(rows(2), "theirs", ("turns", 1), goes_on)
    met: list[dict[str, int]] = []
    assert ours.append(rows(2), "ours", None, lambda other: met.append(dict(other.turns))) == 2
    assert met == [{"turns": 1}]
    assert [transaction(str(tmp_path), version).metadata for version in (1, 2)] == ["theirs", "ours"]  # type: ignore[union-attr]

    def refuses(other: Transaction) -> None:
        raise ValueError(other.metadata)

    with pytest.raises(ValueError, match="ours"):
        theirs.append(rows(2), "again", None, refuses)
    assert DeltaTable(str(tmp_path)).version() == 2


def test_a_name_that_is_taken_stays_as_it_is_and_no_draft_is_left(tmp_path: Path) -> None:
    file = str(tmp_path / "name")
    assert documents.create(file, "one")
    assert not documents.create(file, "two")
    assert documents.read(file) == "one"
    assert os.listdir(tmp_path) == ["name"]
    with pytest.raises(BraidError, match="s3://bucket/name cannot be written"):
        documents.create("s3://bucket/name", "text")


class Writer(BatchWriter):
    """What a writer of a table does without any of Spark."""

    folder: str = ""
    write_batch = repeat = word = None  # type: ignore[assignment]

    @property
    def table(self) -> str:
        return self.folder


Writer.__abstractmethods__ = frozenset()


def writer_of(folder: Path, turn: int = 0) -> Any:
    nothing: Any = None
    writer = Writer(spark=nothing, checkpoint=nothing)
    writer.folder, writer.turn, writer.is_fenced = str(folder), turn, True
    return writer


def test_of_two_writers_that_have_read_the_same_one_appends_and_the_other_is_told(tmp_path: Path) -> None:
    from braid.tables.commits import Position, TailCommit

    first, second = table_at(tmp_path), appending(str(tmp_path), "epoch")
    assert second is not None
    mark = TailCommit("q", 1, Position(2))
    one, two = writer_of(tmp_path), writer_of(tmp_path)
    one.save_rows(first, rows(2), mark)
    one.save_rows(first, rows(2), mark)
    with pytest.raises(BraidError, match="another process writes to"):
        two.save_rows(second, rows(2), mark)
    assert two.in_doubt
    assert DeltaTable(str(tmp_path)).version() == 2
    assert DeltaTable(str(tmp_path)).transaction_version("braid-writer") == 2
    # Who begins now knows both turns.
    late = writer_of(tmp_path, turn=2)
    late.save_rows(second, rows(2), mark)
    assert DeltaTable(str(tmp_path)).version() == 3


def test_a_number_whose_commit_was_cleaned_up_is_not_taken_again(tmp_path: Path) -> None:
    from braid.tables.commits import Position, TailCommit

    table, late = table_at(tmp_path), appending(str(tmp_path), "epoch")
    assert late is not None
    for number in range(4):
        table.append(rows(1), str(number), None, goes_on)
    table.checkpoint_every = 1
    table.tend()
    for version in range(4):
        (tmp_path / commit_file(version)).unlink()
    writer = writer_of(tmp_path)
    writer.save_rows(late, rows(1), TailCommit("q", 1, Position(2)))
    assert late.version == 5
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 5


def test_a_checkpoint_is_made_when_it_is_due_and_commits_that_are_old_go(tmp_path: Path) -> None:
    retention = {"delta.logRetentionDuration": "interval 1 day", "delta.checkpointInterval": "5"}
    table = table_at(tmp_path, **retention)
    for number in range(4):
        table.append(rows(2), str(number), ("turns", number), goes_on)
        table.tend()
    assert not (tmp_path / "_delta_log" / "_last_checkpoint").exists()
    table.append(rows(2), "fifth", ("turns", 5), goes_on)
    table.tend()
    assert json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())["version"] == 5
    long_ago = time.time() - 3 * 24 * 3600
    for file in (tmp_path / "_delta_log").iterdir():
        os.utime(file, (long_ago, long_ago))
    for number in range(6, 11):
        table.append(rows(2), str(number), ("turns", number), goes_on)
        table.tend()
    assert json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())["version"] == 10
    assert [version for version in range(11) if (tmp_path / commit_file(version)).exists()] == [
        5,
        6,
        7,
        8,
        9,
        10,
    ]
    opened = DeltaTable(str(tmp_path))
    assert opened.to_pyarrow_table().num_rows == 20
    assert (opened.transaction_version("turns"), opened.metadata().configuration) == (10, retention)


def test_statistics_hold_what_is_in_a_file_also_between_two_milliseconds() -> None:
    moments = [NOON + timedelta(microseconds=1), NOON + timedelta(microseconds=2001), None]
    table = pa.table(
        {"pane": pa.array(moments, INSTANT), "n": [3, 1, 2], "none": pa.nulls(3), "no": [1, 1, 1]}
    )
    found = statistics(table, ["pane", "n", "none"])
    assert statistics(table, [])["numRecords"] == 3
    assert found == {
        "numRecords": 3,
        "minValues": {"pane": "2026-03-01T12:00:00.000Z", "n": 1},
        "maxValues": {"pane": "2026-03-01T12:00:00.003Z", "n": 3},
        "nullCount": {"pane": 1, "n": 0, "none": 3},
    }


def folded(table: Appending, view: View, epochs: list[datetime], through: dict[date, datetime]) -> pa.Table:
    fold = small_fold("tail of view 'hits'", view, table, epochs, through)
    assert fold is not None
    table.append(fold.rows, "fold", None, goes_on, fold.files)
    return DeltaTable(table.table).to_pyarrow_table().select(tail_columns(view))


def test_a_fold_in_memory_leaves_one_file_an_epoch_with_all_that_was_in_them(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    for minute in (0, 0, 1, 1, 1, 2):
        table.append(rows(7, minute), "batch", None, goes_on)
    before = DeltaTable(table.table).to_pyarrow_table()
    after = folded(table, hits, [NOON, NOON + MINUTE], {})
    assert totals_in(after) == totals_in(before)
    assert len(DeltaTable(table.table).file_uris()) == 3
    assert len(after) < len(before)
    assert sum(after["sum_n"].to_pylist()) == sum(before["sum_n"].to_pylist())
    made = transaction(table.table, table.version)
    assert made is not None
    assert not made.new
    assert not made.takes_rows
    assert len(made.removed) == 5


def test_a_fold_in_memory_leaves_out_what_the_base_covers(tmp_path: Path) -> None:
    table, yesterday = table_at(tmp_path), date(2026, 2, 28)
    for day in (yesterday, date(2026, 3, 1)):
        for minute in (0, 1):
            table.append(rows(4, minute, day), "batch", None, goes_on)
    after = folded(table, hits, [NOON, NOON + MINUTE], {yesterday: NOON})
    left = {(row["day"], row["epoch"]) for row in after.to_pylist()}
    assert left == {
        (day, epoch)
        for day in (yesterday, date(2026, 3, 1))
        for epoch in (NOON, NOON + MINUTE)
        if day != yesterday or is_beyond(epoch, NOON)
    }


def test_partial_sessions_of_an_epoch_are_joined_by_a_fold_in_memory(tmp_path: Path) -> None:
    schema = pa.schema(
        {"epoch": INSTANT, "day": pa.date32(), "first": INSTANT, "last": INSTANT, LATE: pa.int64()}
        | {"url": pa.string(), "count": pa.int64()}
    )
    table = table_at(tmp_path, schema)
    for minutes in (0, 4, 20):
        at = NOON + minutes * MINUTE
        one = {
            "epoch": NOON,
            "day": date(2026, 3, 1),
            "first": at,
            "last": at,
            LATE: 1,
            "url": "/",
            "count": 2,
        }
        table.append(pa.Table.from_pylist([one], schema), "batch", None, goes_on)
    after = folded(table, stays, [NOON], {})
    found = sorted((row["first"], row["last"], row[LATE], row["count"]) for row in after.to_pylist())
    assert found == [(NOON, NOON + 4 * MINUTE, 2, 4), (NOON + 20 * MINUTE, NOON + 20 * MINUTE, 1, 2)]
