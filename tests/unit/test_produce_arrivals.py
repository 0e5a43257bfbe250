"""A made-up stream can say when each event came; the truth counts how late that is, as one would by hand."""

import json
from datetime import datetime
from zoneinfo import ZoneInfo

from braid.produce.record import DUPLICATE, LATE
from braid.produce.truth import arrivals, truth
from braid.produce.weblog import ZONE, Weblog, weblog

MESS = {"events": 2000, "late": 0.2, "duplicates": 0.05, "malformed": 0.03, "out_of_order": 0.1}
SECOND = 1_000_000
HOUR = 3600 * SECOND


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
