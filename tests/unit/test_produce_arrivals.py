"""A made-up stream can say when each event came; the truth counts how late that is, as one would by hand."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.dataset as ds

from braid.examples import demo
from braid.produce.record import DUPLICATE, LATE
from braid.produce.truth import arrivals, truth
from braid.produce.weblog import ZONE, Weblog, weblog
from serving_layer.accuracy.lateness.curves import completeness, what_if
from serving_layer.accuracy.lateness.event_times import Span, event_times

MESS: dict[str, Any] = {
    "events": 2000,
    "late": 0.2,
    "duplicates": 0.05,
    "malformed": 0.03,
    "out_of_order": 0.1,
}
SECOND = 1_000_000
HOUR = 3600 * SECOND
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_column_is_added_and_nothing_else_is_changed() -> None:
    plain, told = list(weblog(Weblog(**MESS))), list(weblog(Weblog(**MESS, arrived_after_ms=0)))
    assert [(one.key, one.kind, one.event) for one in plain] == [
        (one.key, one.kind, one.event) for one in told
    ]
    for before, after in zip(plain, told, strict=True):
        if before.event is None:
            assert before == after
            continue
        assert before.value is not None
        assert after.value is not None
        fields = json.loads(after.value)
        came = datetime.fromisoformat(fields.pop("arrived"))
        assert fields == json.loads(before.value)
        assert round(came.timestamp() * SECOND) == after.arrived_us


def test_an_event_comes_when_it_happens_or_late_and_its_copy_says_the_same() -> None:
    first: dict[bytes, int | None] = {}
    for record in weblog(Weblog(**MESS, arrived_after_ms=0)):
        if record.event is None or record.event.time_ms is None or record.arrived_us is None:
            continue
        delay = record.arrived_us - record.event.time_ms * 1000
        assert delay >= (300 * SECOND if record.kind == LATE else 0)
        if record.kind == DUPLICATE:
            assert record.arrived_us == first[record.key]
        first.setdefault(record.key, record.arrived_us)


def test_all_of_it_can_come_later() -> None:
    at_once, later = (list(weblog(Weblog(**MESS, arrived_after_ms=ms))) for ms in (0, 60_000))
    assert [one.arrived_us and one.arrived_us + 60 * SECOND for one in at_once] == [
        one.arrived_us for one in later
    ]


def test_lateness_is_counted_as_by_hand() -> None:
    # Of the first minute: in time, ten seconds after its window, and an hour after it, when the stream was far ahead.
    found = arrivals(
        [(5 * SECOND, 5 * SECOND), (70 * SECOND, 6 * SECOND), (HOUR, HOUR), (HOUR + 1, 7 * SECOND)]
    )
    assert found["events"] == 4
    assert found["within_seconds"] == {
        "0": 2, "1": 2, "10": 3, "60": 3, "600": 3, "3600": 4, "86400": 4,
    }  # fmt: skip
    assert found["dropped_by_a_watermark_of_10_minutes"] == 1
    assert (found["newest_event_us"], found["last_arrival_us"]) == (HOUR, HOUR + 1)


def test_the_truth_has_it_only_where_events_say_it() -> None:
    zone = ZoneInfo(ZONE)
    assert "page_traffic_arrivals" not in truth(weblog(Weblog(**MESS)), zone)
    told = truth(weblog(Weblog(**MESS, arrived_after_ms=0)), zone)
    assert told["page_traffic_arrivals"]["events"] == sum(row["hits"] for row in told["page_traffic"])


def test_the_report_counts_lateness_as_the_generator_does() -> None:
    """The events that a log would hold, by the column that the demo's source names."""
    records = list(weblog(Weblog(**MESS, arrived_after_ms=0)))
    first = {one.key: one for one in reversed(records) if one.event and (one.event.status or 0) < 400}
    rows = [json.loads(one.value or b"") for one in first.values()]
    stamp, count = pa.timestamp("us", "UTC"), len(rows)
    log = pa.table({
        "time": pa.array([datetime.fromisoformat(row["time"]) for row in rows], stamp),
        "arrived": pa.array([datetime.fromisoformat(row["arrived"]) for row in rows], stamp),
        "url": [row["url"] for row in rows],
        "id": [row["id"] for row in rows],
        "day": pa.array([date(2024, 3, 8)] * count),
        "_partition": pa.array([0] * count, pa.int64()),
        "_offset": pa.array(range(count), pa.int64()),
        "_arrival": pa.array([NOW] * count, stamp),
        "_epoch": pa.array([NOW] * count, stamp),
        "_error": pa.array([None] * count, pa.string()),
    })  # fmt: skip
    known = truth(records, ZoneInfo(ZONE))["page_traffic_arrivals"]
    view = demo.page_traffic
    with event_times(view, ds.dataset(log), Span(NOW), timedelta(minutes=1), view.source.arrival) as times:
        curve, losses = completeness(times).all, what_if(times).watermark
    assert times.clock == "column"
    assert {str(point.after_seconds): round(point.share * curve.events) for point in curve.points} == known[
        "within_seconds"
    ]
    assert losses.lost == known["dropped_by_a_watermark_of_10_minutes"]
