"""A request is checked against its view: what is wrong is named, with what there is instead."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from braid import all_time, session, tumbling
from braid.errors import BraidError
from braid.tables.delta_rs import parse_commit
from serving_layer.answer.answers import plain
from serving_layer.answer.request import parse_request, scope_of
from serving_layer.answer.scope import Scope, typed
from tests.serving import Tables, view_of

HOURLY = view_of(tumbling("1 hour"))
NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"start": "yesterday"}, "start is 'yesterday', which is not a time: write it as 2024-03-08"),
        ({"end": "2024-13-01"}, "end is '2024-13-01', which is not a time"),
        ({"start": "2024-03-09", "end": "2024-03-08"}, "end '2024-03-08' is not after start '2024-03-09'"),
        ({"where": ["hostt=a"]}, "'hostt' is not a key of view 'hits'. Did you mean 'host'? The keys are: host."),
        ({"where": ["host"]}, "where 'host' is not understood: write KEY=VALUE, or 'KEY is null'"),
        ({"order": "-hit"}, "no column 'hit'. Did you mean 'hits'? The columns are: host, window_start, window_end"),
        ({"grain": "7 minutes"}, "'7 minutes'"),
        ({"grain": "90 minutes"}, "panes of 1 hour do not add up to it; read with grain="),
        ({"grain": "soon"}, "'soon' is not a length of time"),
        ({"limit": -1}, "limit -1 and offset 0 count rows: use 0 or more."),
    ],
)  # fmt: skip
def test_a_bad_request_is_answered_with_what_there_is(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(BraidError) as refused:
        parse_request(HOURLY, **asked)
    assert message in str(refused.value)


def test_all_time_has_no_start_unless_it_is_read_by_a_grain() -> None:
    forever = view_of(all_time())
    with pytest.raises(BraidError, match="one window for all time"):
        parse_request(forever, start="2024-03-08")
    assert parse_request(forever, start="2024-03-08", grain="1 day").grain == "1 day"
    with pytest.raises(BraidError, match="no column 'window_start'"):
        parse_request(forever, order="window_start")


def test_times_without_an_offset_are_those_of_the_source() -> None:
    request = parse_request(HOURLY, start="2024-03-08T10:00", end="2024-03-08T16:00Z")
    assert request.start == datetime(2024, 3, 8, 15, tzinfo=UTC)
    assert request.end == datetime(2024, 3, 8, 16, tzinfo=UTC)


def test_several_values_of_a_key_are_alternatives_and_null_is_one() -> None:
    request = parse_request(HOURLY, where=["host=a=b", "host=", "host is null"])
    assert request.where["host"] == ("a=b", "", None)


def test_rows_that_the_order_leaves_equal_are_ordered_by_window_and_keys() -> None:
    assert parse_request(HOURLY, order="-hits, host").order == (
        ("hits", "descending"),
        ("host", "ascending"),
        ("window_start", "ascending"),
        ("window_end", "ascending"),
    )


def test_of_sessions_all_times_are_needed() -> None:
    visits = view_of(session(gap="30 minutes"))
    request = parse_request(visits, start="2024-03-08", where=["host=a"])
    assert scope_of(visits, request) == Scope(keys=request.where)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", pa.int32(), 7),
        ("1.5", pa.decimal128(18, 2), Decimal("1.50")),
        ("true", pa.bool_(), True),
        ("2024-03-08", pa.date32(), date(2024, 3, 8)),
        ("2024-03-08T10:00", pa.timestamp("us", "UTC"), datetime(2024, 3, 8, 15, tzinfo=UTC)),
        ("7", pa.string(), "7"),
    ],
)
def test_a_value_has_the_type_of_its_key(text: str, kind: pa.DataType, value: Any) -> None:
    assert typed(text, kind, "key", NEW_YORK).as_py() == value


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.date32(), pa.bool_(), pa.decimal128(9, 2), pa.timestamp("us", "UTC")]
)
def test_a_value_that_its_key_cannot_have_is_named(kind: pa.DataType) -> None:
    with pytest.raises(BraidError, match=r"key 'size'.*'large'"):
        typed("large", kind, "size", NEW_YORK)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(2024, 3, 10, 7, tzinfo=UTC), "2024-03-10T03:00:00-04:00"),
        (Decimal(10**30), 10**30),
        (Decimal("1.50"), "1.50"),
        (Decimal("2.00"), "2.00"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (b"\x00\xff", "00ff"),
        (None, None),
    ],
)
def test_values_are_shown_without_loss(value: Any, shown: Any) -> None:
    assert plain(value, NEW_YORK) == shown


def test_a_commit_that_changes_no_number_adds_no_rows(home: Any) -> None:
    from pathlib import Path

    from braid.runtime.settings import Settings
    from tests.serving import MIDNIGHT, some_events

    tables = Tables(Settings(home=str(home)), HOURLY)
    tables.append(some_events(1, 5, MIDNIGHT))
    tables.append(some_events(2, 5, MIDNIGHT))
    tables.optimize()
    tables.fold()
    log = sorted(Path(tables.place.tail, "_delta_log").glob("*.json"))
    commits = [parse_commit(file.read_text()) for file in log]
    assert [len(commit.added) for commit in commits] == [1, 1, 0, 0]
    assert [commit.mark and commit.mark.batch for commit in commits] == [0, 1, None, 1]
    assert '"dataChange":true' in log[-1].read_text()
