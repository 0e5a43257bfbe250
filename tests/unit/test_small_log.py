"""Which logs are read by the process itself, and what it reads of them."""

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from braid import Source
from braid.log import contents
from braid.log.contents import _small
from braid.log.table import Log
from braid.runtime.settings import Settings

DAYS = [date(2026, 3, day) for day in (1, 2, 3)]
requests = Source(
    name="requests", kafka_topic="requests", event_time="time", schema="time timestamp, url string"
)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(requests, Settings(home=str(tmp_path / "home")))


def fill(log: Log, **more: pa.Array) -> None:
    """An accepted and a rejected row of each day."""
    days = [day for day in DAYS for _ in range(2)]
    rows = {
        "time": pa.array([datetime(2026, 3, day.day, tzinfo=UTC) for day in days], pa.timestamp("us", "UTC")),
        "url": pa.array([f"/{n}" for n in range(6)]),
        "_error": pa.array([None, "rule: bad"] * 3, pa.string()),
        "_raw": pa.array([None, b"{"] * 3, pa.binary()),
        "day": pa.array(days, pa.date32()),
    }
    write_deltalake(log.table, pa.table(rows | more), partition_by=["day"])


def test_accepted_rows_of_the_days_that_are_asked_for_are_read_without_the_bytes_of_rejected_ones(
    log: Log,
) -> None:
    fill(log)
    every, some = _small(log, None), _small(log, DAYS[1:])
    assert every is not None
    assert some is not None
    assert sorted(every["url"].to_pylist()) == ["/0", "/2", "/4"]
    assert sorted(zip(some["day"].to_pylist(), some["url"].to_pylist(), strict=True)) == [
        (DAYS[1], "/2"),
        (DAYS[2], "/4"),
    ]
    assert "_raw" not in every.column_names


@pytest.mark.parametrize(("limit", "most", "least"), [("MOST_ROWS", 6, 2), ("SMALL", 1 << 20, 1)])
def test_more_than_a_limit_is_left_to_spark(
    log: Log, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, least: int
) -> None:
    fill(log)
    monkeypatch.setattr(contents, limit, most)
    assert _small(log, None) is not None
    monkeypatch.setattr(contents, limit, least)
    assert _small(log, None) is None
    assert (_small(log, DAYS[:1]) is not None) == (limit == "MOST_ROWS"), "a day has two rows"


def test_nested_columns_and_a_log_that_is_not_there_are_left_to_spark(log: Log) -> None:
    assert _small(log, None) is None
    fill(log, place=pa.array([{"x": 1}] * 6))
    assert _small(log, None) is None
