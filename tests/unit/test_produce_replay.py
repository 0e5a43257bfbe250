"""Files as events: types by the source, order of arrival, names, ids, and rows that cannot be read."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from braid.define.source import Source
from braid.errors import BraidError
from braid.produce.replay import Replay, parse_delimiter, parse_renames, replay
from braid.produce.weblog import parse_start

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REQUESTS = Source(
    name="requests",
    kafka_topic="requests",
    schema="id string, time timestamp, host string, url string, status int, bytes bigint",
    event_time="time",
    event_id="id",
    timezone="America/New_York",
)
ITEMS = Source(
    name="items",
    kafka_topic="items",
    schema="code string, at timestamp, price decimal(20,4), weight double, sold boolean",
    event_time="at",
)


def records(tmp_path: Path, text: str | bytes, name: str = "a.csv", **options):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    form = "jsonl" if "jsonl" in name else "csv"
    return list(replay(Replay(path=path, format=form, **options), NOW))


def values(*arguments, **options):
    return [json.loads(record.value) for record in records(*arguments, **options)]


def test_without_a_source_numbers_are_numbers_and_empty_is_null(tmp_path: Path):
    rows = values(tmp_path, "id,n,x,t\n7,12,-1.50e3,hello\n8,,007,1_000\n")
    assert rows == [
        {"id": 7, "n": 12, "x": -1500.0, "t": "hello"},
        {"id": 8, "n": None, "x": "007", "t": "1_000"},
    ]


def test_with_a_source_texts_that_look_like_numbers_stay_texts(tmp_path: Path):
    (row,) = values(tmp_path, "id,time,host,url,status,bytes\n7,807249601,12,5,200,9\n", source=REQUESTS)
    assert row == {
        "id": "7",
        "time": "1995-08-01T04:00:01Z",
        "host": "12",
        "url": "5",
        "status": 200,
        "bytes": 9,
    }


def test_decimals_keep_every_digit(tmp_path: Path):
    text = "code,at,price,weight,sold\n1,2024-01-01T00:00:00Z,1234567890123456.7890,0.1,TRUE\n"
    (record,) = records(tmp_path, text, source=ITEMS)
    assert b'"price":1234567890123456.7890' in record.value
    assert b'"sold":true' in record.value
    assert b'"code":"1"' in record.value
    # This source has no event id, so none is made up.
    assert b"a.csv" not in record.value


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("1,2024-01-01T00:00:00Z,h,/,200,5", None),
        ("1,2024-01-01T00:00:00Z,h,/,OK,5", "wrong type"),
        ("1,2024-01-01T00:00:00Z,h,/,200,1.5", "wrong type"),
        ("1,yesterday,h,/,200,5", "wrong type"),
        ("1,,h,/,200,5", "no event time"),
        ("1,1900-01-01T00:00:00Z,h,/,200,5", "clock out of range"),
        ("1,9999-12-31T23:59:59Z,h,/,200,5", "clock out of range"),
        ("1,2024-01-01T00:00:00Z,h,/,200", "unparsable"),
        ("", "unparsable"),
    ],
)
def test_what_ingest_should_say_of_a_row_is_known(tmp_path: Path, row: str, reason: str | None):
    (record,) = records(tmp_path, f"id,time,host,url,status,bytes\n{row}\n", source=REQUESTS)
    assert record.reason == reason
    assert (record.event is None) == (reason is not None)


def test_rows_with_other_columns_or_other_bytes_are_sent_as_they_are(tmp_path: Path):
    sent = records(tmp_path, b'id,a\n1,2,3\n2,caf\xe9\n3,"two\nlines"\n4,x\n')
    assert [record.value for record in sent[:2]] == [b"1,2,3", b"2,caf\xe9"]
    assert json.loads(sent[2].value) == {"id": 3, "a": "two\nlines"}
    assert [record.reason for record in sent] == ["unparsable", "unparsable", None, None]


def test_columns_are_renamed_and_one_becomes_the_id(tmp_path: Path):
    (row,) = values(tmp_path, "code,response\nx,200\n", renames={"status": "response"}, id_column="code")
    assert row == {"code": "x", "status": 200, "id": "x"}


def test_without_an_id_the_file_and_the_line_are_the_id(tmp_path: Path):
    assert [row["id"] for row in values(tmp_path, 'a\n"1\n"\n2\n')] == ["a.csv:2", "a.csv:4"]


def test_a_tsv_is_split_at_tabs_and_a_quote_in_it_is_a_character(tmp_path: Path):
    assert values(tmp_path, 'id\turl\n1\t/"a\n', "a.tsv") == [{"id": 1, "url": '/"a'}]
    assert values(tmp_path, "id;url\n1;/\n", "b.csv", delimiter=";") == [{"id": 1, "url": "/"}]


def test_packed_files_and_a_byte_order_mark_are_read(tmp_path: Path):
    assert values(tmp_path, gzip.compress(b"\xef\xbb\xbfid,a\n1,2\n"), "a.csv.gz") == [{"id": 1, "a": 2}]


@pytest.mark.parametrize(
    ("cells", "order"),
    [
        (["10", "9", "", "8.5"], [4, 2, 1, 3]),
        (["2024-01-01T00:00:00Z", "2024-01-01T01:00:00+02:00", "2023-12-31T23:30:00.5Z"], [2, 3, 1]),
        (["b", "a", "10"], [3, 2, 1]),
        (["1", "1", "0"], [3, 1, 2]),
    ],
)
def test_rows_are_sent_in_the_order_of_arrival(tmp_path: Path, cells: list[str], order: list[int]):
    text = "id,came\n" + "".join(f"{n},{cell}\n" for n, cell in enumerate(cells, 1))
    assert [row["id"] for row in values(tmp_path, text, arrival="came")] == order


def test_json_lines_are_sent_byte_by_byte_unless_something_is_added(tmp_path: Path):
    line = '{"id":"a", "x":1.10, "s":"\\ud800"}'
    assert [record.value.decode() for record in records(tmp_path, line + "\n", "a.jsonl")] == [line]
    (row,) = values(tmp_path, '{"y":1}\n', "a.jsonl", renames={"x": "y"})
    assert row == {"id": "a.jsonl:1", "x": 1}


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[1]", b"7", '{"id":"a"}'.encode("utf-16"), b'{"id":"\xe9"}', b"[" * 100_000]
)
def test_lines_that_are_no_json_objects_are_sent_as_they_are(tmp_path: Path, line: bytes):
    (record,) = records(tmp_path, line + b"\n", "a.jsonl")
    assert (record.value, record.reason) == (line, "unparsable")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arrival": "came"}, "--arrival 'came' is not a column of a.csv. The columns are: id, url."),
        ({"id_column": "ID"}, "--id 'ID' is not a column of a.csv. Did you mean 'id'?"),
        ({"renames": {"x": "uri"}}, "--map 'uri' is not a column of a.csv. Did you mean 'url'?"),
        ({"renames": {"id": "url"}}, "has a column 'id' already"),
    ],
)
def test_a_column_that_is_not_there_is_refused_with_those_that_are(
    tmp_path: Path, options: dict, message: str
):
    with pytest.raises(BraidError) as refused:
        records(tmp_path, "id,url\n1,/\n", **options)
    assert message in str(refused.value)


@pytest.mark.parametrize("text", [b"", b"a,a\n1,2\n", b"a,,b\n", b"BZh91\xe5\xb8,\x06\n"])
def test_a_file_without_a_header_is_refused(tmp_path: Path, text: bytes):
    with pytest.raises(BraidError, match="must begin with a header"):
        records(tmp_path, text)


def test_a_quote_that_is_left_open_names_its_line(tmp_path: Path):
    with pytest.raises(BraidError, match=r"a\.csv, line 3: .* Is a quote left open"):
        records(tmp_path, 'id,a\n1,2\n2,"' + "x\n" * 100_000)


@pytest.mark.parametrize("text", ["status", "=old", "new="])
def test_a_rename_that_is_not_understood_is_refused(text: str):
    with pytest.raises(BraidError, match="write NEW=OLD"):
        parse_renames([text])


def test_a_column_renamed_twice_is_refused():
    with pytest.raises(BraidError, match="rename each column once"):
        parse_renames(["a=x", "b=x"])


def test_a_tab_can_be_typed_and_a_long_delimiter_is_refused():
    assert (parse_delimiter("\\t"), parse_delimiter("tab"), parse_delimiter(";")) == ("\t", "\t", ";")
    with pytest.raises(BraidError, match="is not one character"):
        parse_delimiter("::")


def test_days_of_the_future_and_no_days_are_refused():
    today = datetime(2024, 5, 2, tzinfo=UTC).date()
    assert parse_start("2024-04-30", 2, today).isoformat() == "2024-04-30"
    with pytest.raises(BraidError, match="reach into the future"):
        parse_start("2024-05-01", 3, today)
    with pytest.raises(BraidError, match="is not a day"):
        parse_start("tomorrow", 1, today)


def test_all_requests_of_a_real_day_are_sent(shared_data: Path):
    path = shared_data / "nasa" / "nasa_19950801_full_day.tsv"
    options = Replay(path=path, format="csv", source=REQUESTS, renames={"status": "response"})
    sent = list(replay(options, NOW))
    assert len(sent) == len({record.key for record in sent}) == 33_996
    assert all(record.event and record.event.status for record in sent)


def test_earthquakes_are_sent_in_the_order_of_their_last_revision(shared_data: Path):
    path = shared_data / "usgs" / "all_month_quakewatch.csv"
    sent = [
        json.loads(record.value) for record in replay(Replay(path=path, format="csv", arrival="updated"), NOW)
    ]
    assert len(sent) == len({row["id"] for row in sent}) == 9462
    updates = [row["updated"] for row in sent]
    assert updates == sorted(updates)
    assert [row["time"] for row in sent] != sorted(row["time"] for row in sent)
