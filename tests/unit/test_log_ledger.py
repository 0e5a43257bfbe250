"""The books that the API shows are those of the log: what was consumed, and what became of it."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.commits import Commit
from serving_layer.answer.ledger import LogLedger
from tests.serving import SOURCE

NOW = datetime(2024, 3, 10, tzinfo=UTC)


@pytest.fixture
def log(home: Path) -> Log:
    return Log(SOURCE, Settings(home=str(home)))


def ingest(log: Log, rows: list[tuple[int, str | None]], end: dict[str, int], **said: Any) -> None:
    """A commit of ingest: (partition, why it was rejected) of each row."""
    schema = pa.schema({"day": pa.date32(), "_partition": pa.int64(), "_error": pa.string()})
    table = pa.Table.from_pylist(
        [{"day": date(2024, 3, 10), "_partition": place, "_error": error} for place, error in rows], schema
    )
    values: dict[str, Any] = {"beat": True, "start": dict.fromkeys(end, 0), "end": end} | said
    text = Commit("query", 1, NOW, NOW, **values).to_json()
    write_deltalake(
        log.table, table, mode="append", partition_by=["day"],
        commit_properties=CommitProperties(custom_metadata={"userMetadata": text}),
    )  # fmt: skip


def test_what_was_consumed_is_accepted_rejected_or_a_duplicate(log: Log) -> None:
    books = LogLedger(log)
    ingest(log, [(0, None), (0, "unparsable"), (1, None)], {"0": 2, "1": 2}, duplicates=1)
    found = books.summary()
    names = ("consumed", "accepted", "rejected", "duplicates", "balanced", "rows")
    assert {name: found[name] for name in names} == dict(zip(names, (4, 2, 1, 1, True, 3), strict=True))
    assert found["quarantine"] == [{"reason": "unparsable", "events": 1}]
    ingest(log, [(0, None)], {"0": 3, "1": 2}, duplicates=1)
    assert books.summary()["accepted"] == 3
    DeltaTable(log.table).optimize.compact()
    assert (books.summary()["accepted"], books.summary()["balanced"]) == (3, True)


def test_what_came_back_by_the_inbox_is_not_consumed_twice(log: Log) -> None:
    ingest(log, [(0, "unparsable"), (-1, None)], {"0": 1})
    found = LogLedger(log).summary()
    assert (found["consumed"], found["rejected"], found["requeued"], found["balanced"]) == (1, 1, 1, True)


def test_rows_that_nobody_consumed_do_not_balance(log: Log) -> None:
    ingest(log, [(0, None), (0, None)], {"0": 1})
    assert LogLedger(log).summary()["balanced"] is False


def test_what_the_log_alone_cannot_say_is_left_open(log: Log) -> None:
    ingest(log, [(0, None)], {"0": 3}, uncounted=1)
    assert LogLedger(log).summary()["balanced"] is None


def test_a_log_that_is_not_there_yet_holds_nothing(log: Log) -> None:
    found = LogLedger(log).summary()
    assert (found["rows"], found["epoch"], found["partitions"], found["balanced"]) == (0, None, [], None)
