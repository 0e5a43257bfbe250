"""Common Log Format: which lines are requests, and that all others are sent as they are."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from braid.errors import BraidError
from braid.produce.clf import parse_line, replay_clf

LINE = b'199.72.81.55 - - [01/Jul/1995:00:00:01 -0400] "GET /history/apollo/ HTTP/1.0" 200 6245'


def url_of(request: bytes) -> str | None:
    parsed = parse_line(LINE.replace(b"GET /history/apollo/ HTTP/1.0", request), "x")
    return parsed[0].url if parsed else None


def test_a_line_becomes_a_request_with_its_offset(tmp_path: Path):
    (tmp_path / "a.clf").write_bytes(LINE + b"\r\n")
    (record,) = replay_clf(tmp_path / "a.clf")
    assert json.loads(record.value) == {
        "id": "a.clf:1",
        "time": "1995-07-01T00:00:01-04:00",
        "host": "199.72.81.55",
        "url": "/history/apollo/",
        "status": 200,
        "bytes": 6245,
    }
    assert record.event.time_ms == datetime(1995, 7, 1, 4, 0, 1, tzinfo=UTC).timestamp() * 1000


def test_a_dash_for_the_bytes_is_null():
    parsed = parse_line(LINE.replace(b"6245", b"-"), "x")
    assert parsed is not None
    assert parsed[0].bytes is None


@pytest.mark.parametrize(
    ("request_line", "url"),
    [
        (b"GET /a HTTP/1.0", "/a"),
        (b"GET /a", "/a"),
        (b"GET /with blanks/b.gif HTTP/1.0", "/with blanks/b.gif"),
        (b'GET /"quoted".html HTTP/1.0', '/"quoted".html'),
        (b"GET /caf\xe9 HTTP/1.0", "/café"),
        ("GET /café HTTP/1.0".encode(), "/café"),
        (b"rubbish", "rubbish"),
        (b"", ""),
    ],
)
def test_a_request_is_read_as_clients_send_it(request_line: bytes, url: str):
    assert url_of(request_line) == url


@pytest.mark.parametrize(
    "line",
    [
        b"",
        LINE[:40],
        LINE[40:],
        LINE + b" ",
        LINE.replace(b"Jul", b"Xyz"),
        LINE.replace(b"01/Jul", b"31/Jun"),
        LINE.replace(b" 200 ", b" ok "),
        LINE.replace(b"-0400", b"-9999"),
    ],
)
def test_anything_else_is_sent_as_it_is(tmp_path: Path, line: bytes):
    (tmp_path / "a.clf").write_bytes(line + b"\n")
    (record,) = replay_clf(tmp_path / "a.clf")
    assert (record.value, record.event, record.reason) == (line, None, "unparsable")


def test_a_packed_file_that_is_cut_off_is_an_error_that_names_it(tmp_path: Path):
    packed = gzip.compress(LINE * 1000)
    (tmp_path / "a.clf.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(BraidError, match=r"a\.clf\.gz cannot be read to its end"):
        list(replay_clf(tmp_path / "a.clf.gz"))


def test_a_missing_file_is_refused_before_anything_is_sent(tmp_path: Path):
    with pytest.raises(BraidError, match="is not there"):
        replay_clf(tmp_path / "nope.clf")


def test_of_the_wrapped_log_89_lines_are_no_requests(shared_data: Path):
    records = list(replay_clf(shared_data / "nasa" / "NASA_access_log_Aug95_head_mangled_wraps.clf"))
    refused = [record for record in records if record.event is None]
    assert (len(records), len(refused)) == (1930, 89)
    # None of them may be mistaken for JSON: ingest would give another reason.
    for record in refused:
        with pytest.raises(ValueError, match=r"Expecting value|Extra data"):
            json.loads(record.value)


def test_all_lines_of_the_july_log_are_requests(shared_data: Path):
    records = list(replay_clf(shared_data / "nasa" / "NASA_access_log_Jul95_first10000.clf.gz"))
    assert len(records) == 10_000
    assert all(record.event for record in records)
    assert len({record.key for record in records}) == 10_000
