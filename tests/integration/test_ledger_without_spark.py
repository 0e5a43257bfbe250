"""The ledger reads plainly only what Spark reads in the same way, and comes to the same books as Spark does."""

import contextlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from braid import Source
from braid.infra.broker import Broker
from braid.log.table import Log
from speed_layer.ingest.parse import parse
from speed_layer.ingest.records import file_number
from speed_layer.ledger import evidence, plain_records
from speed_layer.ledger.balance import take_stock
from speed_layer.ledger.files import xxhash64
from tests.ingesting import event, run
from tests.kafka import send

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = (
    "id string, time timestamp, small tinyint, n int, big bigint, x double, ok boolean, d date, "
    "money decimal(6,2), tags array<string>, ns array<int>"
)
GOOD = {"id": "a", "time": "2024-03-08T12:00:00Z"}
VALUES: dict[str, tuple[Any, ...]] = {
    "id": ("", "é", "a b", 1, True, "\u0000", None, ["a"], "\ud83d\ude00"),
    "time": (
        "2024-03-08T12:00:00.5+02:00", "2024-03-08T12:00:00", "2024-03-08", 1700000000, 1700000000.25, "1700000000",
        "2024-02-30T00:00:00Z", "9999-01-01T00:00:00Z", "1901-01-01T00:00:00Z", -1, "", None, 20240101,
        "2024-03-08T24:00:00Z", "2024-03-08T12:00:00+19:00",
    ),
    "small": (1, 127, 128, -128, -129, 1.0, "1", True),
    "n": (2**31 - 1, 2**31, -(2**31), 0, -0, 1.5, "7"),
    "big": (2**63 - 1, 2**63, -(2**63), 12345678901234567890123),
    "x": (1, 0.1, -0.5, "0.1", "NaN", True, 12345678901234567890, 0.1234567890123456789),
    "ok": (True, False, 0, "true"),
    "d": ("2024-02-29", "2023-02-29", "2024-2-9", "20240229", 19000, "0999-01-01"),
    "money": (1, 1.5, 12.34, 12.345, 9999.99, 10000, -9999.99, "1.5", "x", 1.10),
    "tags": (["a", "b"], [], [None], ["a", 1], "a", [["a"]], None),
    "ns": ([1, 2], [1.5], ["1"], [2**31]),
}  # fmt: skip
TEXTS = (
    b"", b" ", b"{", b"null", b"[]", b'{"id": "a", "id": "b", "time": "2024-03-08T12:00:00Z"}',
    b'{"time": "2024-03-08T12:00:00Z", "x": NaN}', b'{"time": "2024-03-08T12:00:00Z", "x": 1e3}',
    b'{"time": "2024-03-08T12:00:00Z", "n": 01}', b'{"time": "2024-03-08T12:00:00Z"} x',
    b'{"time": "2024-03-08T12:00:00Z", "more": {"a": [1, {"b": "}"}]}}',
    b'\xef\xbb\xbf{"time": "2024-03-08T12:00:00Z"}',
    b'{"time": "2024-03-08T12:00:00Z", "id": "\xff"}', b'{"time": "2024-03-08T12:00:00Z", "id": "\\ud800"}',
    b'{"TIME": "2024-03-08T12:00:00Z"}', b"{'time': '2024-03-08T12:00:00Z'}", b'{"time": "2024-03-08T12:00:00Z",}',
    b'{"time": "2024-03-08T12:00:00Z", "money": 1e2}', b'{"time":\t"2024-03-08T12:00:00Z"\r\n}',
    b'{"time": "2024-03-08T12:00:00Z", "id": "a\nb"}',
)  # fmt: skip
LINES = (
    "a,2024-03-08T12:00:00Z,1,1.5", "a,2024-03-08T12:00:00Z,,", ",2024-03-08T12:00:00Z,1,1", "a,2024-03-08,1,1", "a",
    'a,"2024-03-08T12:00:00Z",1,1', "a, 2024-03-08T12:00:00Z ,1,1", "a,2024-03-08T12:00:00Z,1.0,1",
    "a,2024-03-08T12:00:00Z,9999999999,1", "a,2024-03-08T12:00:00Z,1,x", "a,1700000000,1,-0.25", "a\\,b,1700000000,1,1",
    "a,2024-03-08T12:00:00Z,1,1,", "é,2024-03-08T12:00:00Z,-1,0", "a b,2024-03-08T12:00:00Z,007,1.50",
)  # fmt: skip
JSON = Source(
    name="s", kafka_topic="s", schema=SCHEMA, event_time="time", event_id="id", timezone="Europe/Berlin"
)
CSV = Source(
    name="s", files="drop/*.csv", format="csv", event_time="time", event_id="id",
    schema="id string, time timestamp, n int, x double",
)  # fmt: skip


def read_by_spark(spark: Any, source: Source, records: dict[int, bytes]) -> dict[int, Any]:
    schema = "_partition bigint, _offset bigint, _arrival timestamp, _value binary, _refused string"
    rows = spark.createDataFrame([(0, n, NOW, value, None) for n, value in records.items()], schema)
    return {row._offset: row for row in parse(source, rows).collect()}


@pytest.mark.parametrize(
    ("source", "records", "at_least"),
    [
        (
            JSON,
            [json.dumps(GOOD | {name: value}).encode() for name, values in VALUES.items() for value in values]
            + list(TEXTS),
            30,
        ),
        (CSV, [line.encode() for line in LINES], 4),
    ],
    ids=["json", "csv"],
)
def test_what_is_read_plainly_is_accepted_by_spark_with_the_same_values(
    spark: Any, source: Source, records: list[bytes], at_least: int
) -> None:
    certain: dict[int, dict[str, Any]] = {}
    for number, value in enumerate(records):
        with contextlib.suppress(plain_records.DoubtfulError):
            certain[number] = plain_records.read(source, value, NOW)
    assert len(certain) >= at_least
    rows = read_by_spark(spark, source, {number: records[number] for number in certain})
    for number, expected in certain.items():
        row = rows[number]
        assert row._error is None, (records[number], row._error)
        found = {name: row[name] for name in source.columns}
        found[source.event_time] = found[source.event_time].astimezone(UTC)
        assert found == expected, records[number]


def test_a_file_has_the_same_number_with_spark_and_without(spark: Any) -> None:
    paths = [f"file:/{'aé/'[n % 3] * n}" for n in range(80)]
    rows = spark.createDataFrame([(path,) for path in paths], "path string")
    numbers = [row[0] for row in rows.select(file_number(rows.path)).collect()]
    assert [xxhash64(path.encode()) & (2**63 - 1) for path in paths] == numbers


def both(log: Log, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The books as they are closed without Spark, and with Spark alone."""
    with monkeypatch.context() as without:
        without.setattr(evidence, "_ask_spark", None)
        without.setattr(evidence, "_ask_spark_of_files", None)
        first = take_stock(log)
    with monkeypatch.context() as with_spark:
        with_spark.setattr(evidence, "MOST", -1)
        return first, take_stock(log)


def test_the_books_of_a_topic_are_the_same(
    spark: Any, log: Log, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = str(log.source.kafka_topic)
    send(broker.bootstrap, topic, [event(str(n % 25)) for n in range(60)] + [b"bad", event(None)])
    run(spark, log)
    place = spark.read.format("delta").load(log.table).where("id = '3'").first()
    spark.sql(f"alter table delta.`{log.table}` set tblproperties ('delta.appendOnly' = 'false')")
    spark.sql(f"delete from delta.`{log.table}` where id = '3'")
    first, second = both(log, monkeypatch)
    assert first == second
    assert {"lost"} == {violation.kind for violation in first.violations}
    assert any(
        v.partition == place._partition and v.first <= place._offset <= v.last for v in first.violations
    )


def test_the_books_of_a_folder_are_the_same(
    spark: Any, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = tmp_path / "drop of files"
    drop.mkdir()
    source = replace(log.source, name="dropped", kafka_topic=None, files=f"{drop}/*.jsonl")
    log = replace(log, source=source)
    records = [event("a"), event("b"), b"", event("a"), b"bad", b"  ", event("c")]
    (drop / "one é.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(records))
    (drop / "two.jsonl").write_bytes(b"\n".join([event("b"), event("d"), b""]))
    run(spark, log)
    (drop / "waiting.jsonl").write_bytes(event("e") + b"\n")
    (drop / ".hidden.jsonl").write_bytes(event("f") + b"\n")
    first, second = both(log, monkeypatch)
    assert first == second
    assert (first.balanced, first.waiting) == (True, 1)
