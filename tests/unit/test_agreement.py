"""What small days were served is compared with what is published in this process, group by group."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from batch_layer.accuracy import agreement
from batch_layer.days import Accuracy
from braid import Source, View, count, max_, mean, quantile, session, stddev, sum_, tumbling

requests = Source(
    name="requests", kafka_topic="requests", event_time="time",
    schema="time timestamp, url string, bytes bigint, seconds double",
)  # fmt: skip
DAY, NEXT = date(2026, 3, 1), date(2026, 3, 2)
HOUR = pa.timestamp("us", "UTC")


def view(**measures: Any) -> View:
    return View(name="v", source=requests, keys=("url",), window=tumbling("1 hour"), measures=measures)


def states(kind: pa.DataType, name: str, *rows: tuple[Any, ...]) -> pa.Table:
    """Rows of (day, hour, url, events, state)."""
    columns = list(zip(*rows, strict=True)) or [()] * 5
    panes = [datetime(day.year, day.month, day.day, hour, tzinfo=UTC) for day, hour, *_ in rows]
    return pa.table(
        {
            "day": pa.array(columns[0], pa.date32()), "pane": pa.array(panes, HOUR),
            "url": pa.array(columns[2], pa.string()), "count": pa.array(columns[3], pa.int64()),
            name: pa.array(columns[4], kind),
        }
    )  # fmt: skip


def sums(*rows: tuple[Any, ...]) -> pa.Table:
    return states(pa.decimal128(38, 0), "sum_bytes", *rows)


def test_groups_are_counted_by_day_with_their_worst_error() -> None:
    made = sums((DAY, 0, "/a", 2, 10), (DAY, 1, "/a", 1, 5), (DAY, 1, None, 1, None), (NEXT, 0, "/a", 1, 1))
    served = sums((DAY, 1, None, 1, None), (DAY, 0, "/a", 2, 8), (NEXT, 0, "/a", 1, 1), (NEXT, 5, "/b", 1, 9))
    found = agreement(view(bytes=sum_("bytes")), served, made)
    assert found == {DAY: Accuracy(3, 1, 1.0), NEXT: Accuracy(2, 1, 1.0)}
    near = sums((DAY, 0, "/a", 2, 8))
    assert agreement(view(bytes=sum_("bytes")), near, made.slice(0, 1)) == {DAY: Accuracy(1, 0, 0.2)}


def test_nothing_on_one_side_is_wrong_by_all_and_nothing_on_both_is_nothing() -> None:
    one = sums((DAY, 0, "/a", 2, 10))
    assert agreement(view(bytes=sum_("bytes")), sums(), one) == {DAY: Accuracy(1, 0, 1.0)}
    assert agreement(view(bytes=sum_("bytes")), one, sums()) == {DAY: Accuracy(1, 0, 1.0)}
    assert agreement(view(bytes=sum_("bytes")), sums(), sums()) == {}


@pytest.mark.parametrize(
    ("mine", "theirs", "error"),
    [
        (0.1 + 0.2, 0.3, None),
        (float("nan"), float("nan"), None),
        (float("inf"), float("inf"), None),
        (None, None, None),
        (float("inf"), 1.0, 1.0),
        (float("nan"), 1.0, 1.0),
        (None, 1.0, 1.0),
        (0.0, 0.5, 1.0),
        (3.0, 4.0, 0.25),
    ],
)
def test_floating_point_numbers_are_equal_but_for_the_order_of_adding(
    mine: float | None, theirs: float | None, error: float | None
) -> None:
    kind = pa.float64()
    served, made = (states(kind, "max_seconds", (DAY, 0, "/a", 1, value)) for value in (mine, theirs))
    found = agreement(view(longest=max_("seconds")), served, made)
    assert found == {DAY: Accuracy(1, int(error is None), error or 0.0)}


def test_what_is_presented_decides_and_not_how_a_state_is_written() -> None:
    buckets = pa.map_(pa.int32(), pa.int64())
    served, other, made = (
        states(buckets, "hist_seconds", (DAY, 0, "/a", 3, entries), (DAY, 1, "/a", 1, None))
        for entries in ([(40_002, 1), (40_001, 2)], [(40_002, 2), (40_001, 1)], [(40_001, 2), (40_002, 1)])
    )
    median = view(median=quantile("seconds", 0.5))
    assert agreement(median, served, made) == {DAY: Accuracy(2, 2, 0.0)}
    found = agreement(median, other, made)[DAY]
    assert (found.groups, found.equal) == (2, 1)
    assert 0 < found.largest_error < 0.03


def test_means_and_deviations_are_compared_as_numbers() -> None:
    means = pa.struct([("n", pa.int64()), ("total", pa.decimal128(38, 0))])
    a, b = (
        states(means, "mean_bytes", (DAY, 0, "/a", 2, {"n": 2, "total": total}), (DAY, 1, "/a", 1, None))
        for total in (10, 8)
    )
    assert agreement(view(mean=mean("bytes")), a, b) == {DAY: Accuracy(2, 1, 0.2)}
    moments = pa.struct([("n", pa.int64()), ("mean", pa.float64()), ("m2", pa.float64())])
    c, d = (
        states(moments, "moments_seconds", (DAY, 0, "/a", 2, {"n": 2, "mean": mean, "m2": 2.0}))
        for mean in (1.0, 7.0)
    )
    assert agreement(view(spread=stddev("seconds")), c, d) == {DAY: Accuracy(1, 1, 0.0)}


def test_a_session_is_a_group_by_its_first_and_its_last_event() -> None:
    visits = View(
        name="v", source=requests, keys=("url",), window=session(gap="30 minutes"), measures={"hits": count()}
    )
    first = datetime(2026, 3, 1, 10, tzinfo=UTC)

    def one(last: datetime) -> pa.Table:
        return pa.table(
            {
                "day": pa.array([DAY], pa.date32()), "first": pa.array([first], HOUR),
                "last": pa.array([last], HOUR), "url": ["/a"], "count": pa.array([2], pa.int64()),
            }
        )  # fmt: skip

    assert agreement(visits, one(first), one(first)) == {DAY: Accuracy(1, 1, 0.0)}
    assert agreement(visits, one(first), one(first.replace(minute=5))) == {DAY: Accuracy(2, 0, 1.0)}
