"""A column as plain data is what each of its values is."""

from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving_layer.answer.json_values import plain, plain_column

INSTANT = pa.timestamp("us", "UTC")
ZONES = ("America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC", "Europe/Amsterdam")
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(tzinfo=UTC)
)
WHOLE = MOMENTS.map(lambda moment: moment.replace(microsecond=0))


def one_by_one(values: list[object], zone: str) -> list[object]:
    return [None if value is None else plain(value, ZoneInfo(zone)) for value in values]


@given(st.lists(st.none() | WHOLE) | st.lists(st.none() | MOMENTS), st.sampled_from(ZONES))
def test_moments(values: list[datetime | None], zone: str) -> None:
    column = pa.chunked_array([pa.array(values, INSTANT)])
    assert plain_column(column, ZoneInfo(zone)) == one_by_one(list(values), zone)


@given(st.lists(st.none() | st.integers(-(10**37), 10**37).map(Decimal)))
def test_whole_decimals(values: list[Decimal | None]) -> None:
    column = pa.chunked_array([pa.array(values, pa.decimal128(38, 0))])
    assert plain_column(column, ZoneInfo("UTC")) == one_by_one(list(values), "UTC")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.5, float("nan"), float("inf"), None], pa.float64()),
        ([Decimal("1.50"), None], pa.decimal128(10, 2)),
        (["a", None, ""], pa.string()),
        ([True, None], pa.bool_()),
        ([b"\x01", None], pa.binary()),
        ([datetime(2024, 1, 1), None], pa.timestamp("us")),
    ],
)
def test_other_kinds(values: list[object], kind: pa.DataType) -> None:
    assert plain_column(pa.chunked_array([pa.array(values, kind)]), ZoneInfo("UTC")) == one_by_one(
        values, "UTC"
    )
