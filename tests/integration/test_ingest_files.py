"""Files dropped into a folder are read once, line by line, and accounted for like Kafka's records."""

import gzip
import os
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from braid import Source
from braid.errors import BraidError
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.commits import commits
from speed_layer.ingest.run import ingest
from speed_layer.ledger.balance import take_stock
from tests.ingesting import recover

CSV = 'id,time,title\n1,2024-01-01T10:00:00Z,engineer\n2,2024-01-01T11:00:00Z,"artist, free"\n'


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    folder = tmp_path / "drop"
    folder.mkdir()
    return folder


@pytest.fixture
def log(home: Path, drop: Path) -> Log:
    source = Source(
        name="people", files=f"{drop}/*.csv", format="csv", schema="id string, time timestamp, title string",
        event_time="time", event_id="id",
    )  # fmt: skip
    return Log(source, Settings(home=str(home), spark_master="local[2]"))


def run(spark: Any, log: Log) -> None:
    ingest(spark, [log.source], log.settings, once=True)


def table(spark: Any, log: Log) -> Any:
    return spark.read.format("delta").load(log.table)


def titles(spark: Any, log: Log) -> dict[str, str]:
    return {row.id: row.title for row in table(spark, log).where("_error is null").collect()}


def test_bytes_that_are_not_text_are_refused_as_they_were_written(spark: Any, log: Log, drop: Path) -> None:
    good = "1,2024-01-01T10:00:00Z,café\n".encode()
    bad = "2,2024-01-01T10:00:00Z,café".encode("latin-1")
    (drop / "a.csv").write_bytes(good + bad + b"\n")
    run(spark, log)
    assert titles(spark, log) == {"1": "café"}
    (row,) = table(spark, log).where("_error is not null").collect()
    assert (row._error, bytes(row._raw)) == ("unparsable: not UTF-8", bad)


def test_a_folder_full_of_files_is_read_in_portions(spark: Any, log: Log, drop: Path) -> None:
    for number in range(6):
        (drop / f"{number}.csv").write_text(f"{number},2024-01-01T10:00:00Z,{'x' * 600_000}\n")
    run(spark, Log(log.source, log.settings.model_copy(update={"batch_bytes": "1m"})))
    assert len([commit for _, commit in commits(log.table) if not commit.beat]) >= 3
    assert len(titles(spark, log)) == 6
    assert take_stock(log).balanced


def test_files_are_read_once_as_they_arrive(spark: Any, log: Log, drop: Path) -> None:
    (drop / "a.csv").write_text(CSV)
    (drop / "ignored.txt").write_text("not for us")
    run(spark, log)
    (drop / "b.csv").write_text(
        "\ufeffid,time,title\r\n3,2024-01-02T10:00:00Z,cook\r\n\r\n1,2024-01-02T10:00:00Z,twin\r\n"
    )
    old = datetime(2001, 1, 1, tzinfo=UTC).timestamp()
    (drop / "old.csv").write_text("4,2024-01-02T10:00:00Z,without a header\n5,2024-01-02T10:00:00Z\n")
    os.utime(drop / "old.csv", (old, old))
    run(spark, log)
    run(spark, log)
    assert titles(spark, log) == {"1": "engineer", "2": "artist, free", "3": "cook", "4": "without a header"}
    reasons = [row._error for row in table(spark, log).where("_error is not null").collect()]
    assert reasons == ["unparsable: not one line of 3 CSV fields"]
    books = take_stock(log)
    assert books.balanced, books
    assert sum(account.duplicates for account in books.accounts) == 1
    assert sum(account.consumed for account in books.accounts) == 6


def test_a_header_in_another_order_puts_the_whole_file_into_quarantine(
    spark: Any, log: Log, drop: Path
) -> None:
    (drop / "swapped.csv").write_text("title,time,id\nengineer,2024-01-01T10:00:00Z,1\n")
    run(spark, log)
    reasons = {row._error for row in table(spark, log).collect()}
    assert reasons == {"unparsable: the header of its file is not id,time,title"}
    assert take_stock(log).balanced


def test_json_lines_are_read_too(spark: Any, log: Log, drop: Path) -> None:
    log = replace(log, source=replace(log.source, files=f"{drop}/*.jsonl", format="json"))
    (drop / "a.jsonl").write_text('{"id": "1", "time": "2024-01-01T10:00:00Z", "title": "x"}\n{"id": \n')
    run(spark, log)
    assert titles(spark, log) == {"1": "x"}
    assert table(spark, log).where("_error is not null").count() == 1


def test_packed_files_lines_of_text_and_rows_of_parquet_are_read_once_and_accounted_for(
    spark: Any, log: Log, drop: Path
) -> None:
    (drop / "a.csv.gz").write_bytes(gzip.compress(CSV.encode()[:40]) + gzip.compress(CSV.encode()[40:]))
    (drop / "b.csv.gz").write_bytes(gzip.compress(CSV.encode())[:-20])
    (drop / "a.log").write_text(
        '10.0.0.1 [2024-01-01T10:00:00Z] "GET /a, b" 200 17\n10.0.0.2 [2024-01-01T10:00:01Z] "GET /" 404 -\n'
        '10.0.0.3 [yesterday] "GET /" 200 1\nnothing of the kind\n'
    )
    when = datetime(2024, 1, 1, 10, 0, 0, 123456, tzinfo=UTC)
    rows = {
        "id": ["1", "2", "2"], "time": pa.array([when, None, when], pa.timestamp("us", "UTC")),
        "price": [Decimal("1.50"), Decimal("2.25"), Decimal("2.25")], "tags": [["a"], [], None],
    }  # fmt: skip
    pq.write_table(pa.table(rows), drop / "a b+c.parquet")
    packed = replace(log.source, name="packed", files=f"{drop}/*.csv.gz")
    access = Source(
        name="access", files=f"{drop}/*.log", format="text", event_time="time",
        pattern=r'(\S+) \[([^\]]+)\] "([^"]*)" (\d{3}) (?:(\d+)|-)',
        schema="host string, time timestamp, request string, status int, bytes bigint",
    )  # fmt: skip
    prices = Source(
        name="prices", files=f"{drop}/*.parquet", format="parquet", event_time="time", event_id="id",
        schema="id string, time timestamp, price decimal(10,2), tags array<string>, absent string",
    )  # fmt: skip
    logs = {source.name: Log(source, log.settings) for source in (packed, access, prices)}
    for _ in range(2):
        ingest(spark, [packed, access, prices], log.settings, once=True)
    assert titles(spark, logs["packed"]) == {"1": "engineer", "2": "artist, free"}
    assert refused(spark, logs["packed"]) == [
        "unparsable: its file cannot be unpacked, or holds more than 512 MiB"
    ]
    assert sorted(
        tuple(row)
        for row in accepted(spark, logs["access"]).select("host", "request", "status", "bytes").collect()
    ) == [("10.0.0.1", "GET /a, b", 200, 17), ("10.0.0.2", "GET /", 404, None)]
    assert refused(spark, logs["access"]) == [
        "unparsable: the line does not match the pattern",
        "wrong type: time is not timestamp",
    ]
    found = accepted(spark, logs["prices"]).selectExpr("id", "unix_micros(time)", "price", "tags", "absent")
    micros = int(when.timestamp() * 1_000_000)
    assert sorted(map(tuple, found.collect())) == [
        ("1", micros, Decimal("1.50"), ["a"], None),
        ("2", micros, Decimal("2.25"), None, None),
    ]
    assert refused(spark, logs["prices"]) == ["no event time"]
    for one in logs.values():
        assert take_stock(one).balanced


@pytest.mark.soak
@pytest.mark.parametrize("how", ["mended", "gone"])
def test_a_parquet_file_with_another_type_holds_ingest_up_until_it_is_mended_or_gone(
    spark: Any, log: Log, drop: Path, how: str
) -> None:
    source = Source(
        name="prices", files=f"{drop}/*.parquet", format="parquet", event_time="time", event_id="id",
        schema="id string, time timestamp",
    )  # fmt: skip
    prices = Log(source, log.settings)
    when = pa.array([datetime(2024, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": ["1"], "time": when}), drop / "good.parquet")
    pq.write_table(pa.table({"id": ["2"], "time": ["noon"]}), drop / "bad.parquet")
    with pytest.raises(BraidError, match=r"bad\.parquet"):
        run(spark, prices)
    assert accepted(spark, prices).count() == 0
    if how == "mended":
        pq.write_table(pa.table({"id": ["2"], "time": when}), drop / "bad.parquet")
    else:
        (drop / "bad.parquet").unlink()
    run(spark, prices)
    assert sorted(row.id for row in accepted(spark, prices).collect()) == (
        ["1", "2"] if how == "mended" else ["1"]
    )
    assert take_stock(prices).balanced


def accepted(spark: Any, log: Log) -> Any:
    return table(spark, log).where("_error is null")


def refused(spark: Any, log: Log) -> list[str]:
    return sorted(row["_error"] for row in table(spark, log).where("_error is not null").collect())


def test_a_new_checkpoint_reads_only_the_files_that_the_log_lacks(spark: Any, log: Log, drop: Path) -> None:
    (drop / "a.csv").write_text(CSV)
    run(spark, log)
    Path(log.checkpoint).rename(f"{log.checkpoint}.elsewhere")
    (drop / "b.csv").write_text("id,time,title\n9,2024-01-02T10:00:00Z,cook\n")
    with pytest.raises(BraidError, match="braid recover people"):
        run(spark, log)
    recover(spark, log)
    run(spark, log)
    assert table(spark, log).count() == 3
    assert take_stock(log).balanced


def test_a_folder_that_is_not_there_is_named(spark: Any, log: Log) -> None:
    away = replace(log, source=replace(log.source, files="/no/such/folder/*.csv"))
    with pytest.raises(BraidError, match="there is no folder '/no/such/folder'"):
        run(spark, away)
