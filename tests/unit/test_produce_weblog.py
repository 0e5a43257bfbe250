"""The made-up web log: the same bytes for the same seed, the asked-for disorder, days that follow the zone."""

import json
from collections import Counter
from datetime import date, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from braid.errors import BraidError
from braid.produce.record import DUPLICATE, EVENT, FAR_DUPLICATE, LATE
from braid.produce.site import end_ms, position_at, schedule
from braid.produce.weblog import SHARES, Weblog, weblog

NEW_YORK = ZoneInfo("America/New_York")
NASTY = Weblog(
    events=20_000, late=0.2, duplicates=0.05, duplicates_far=0.01, malformed=0.03, out_of_order=0.1
)


@pytest.fixture(scope="module")
def nasty():
    return list(weblog(NASTY))


def test_the_same_seed_makes_the_same_bytes_and_another_one_does_not(nasty):
    assert list(weblog(NASTY)) == nasty
    other = list(weblog(Weblog(events=100, seed=2)))
    assert [record.value for record in other] != [
        record.value for record in weblog(Weblog(events=100, seed=1))
    ]


def test_the_bytes_of_a_seed_do_not_change_between_versions():
    first = next(weblog(Weblog(events=1000)))
    assert first.value == (
        b'{"id":"w1-0000000","time":"2024-03-08T05:00:15.150Z","host":"dial-1853.isp8.example.net",'
        b'"url":"/images/logo.gif","status":200,"bytes":891}'
    )


def test_disorder_sends_the_same_events_in_another_order(nasty):
    calm = {record.key: record.value for record in weblog(Weblog(events=20_000))}
    sent = {record.key: record.value for record in nasty if record.event}
    assert sent.items() <= calm.items()
    assert {record.key for record in nasty} == calm.keys()


def test_without_disorder_events_come_in_the_order_of_their_times():
    times = [record.event.time_ms for record in weblog(Weblog(events=2000))]
    assert times == sorted(times)
    assert len(times) == 2000


def test_each_share_is_what_was_asked_for(nasty):
    kinds = Counter(record.kind for record in nasty)
    good = sum(kinds[kind] for kind in (EVENT, LATE))
    malformed = sum(record.event is None for record in nasty)
    assert good + malformed == 20_000
    assert malformed / 20_000 == pytest.approx(0.03, rel=0.15)
    assert kinds[LATE] / good == pytest.approx(0.2, rel=0.1)
    assert kinds[DUPLICATE] / good == pytest.approx(0.05, rel=0.15)
    assert kinds[FAR_DUPLICATE] / good == pytest.approx(0.01, rel=0.3)
    assert len(nasty) == pytest.approx(NASTY.expected_records, rel=0.01)


def test_late_events_are_minutes_to_days_behind_what_was_sent_before_them():
    newest, behind = 0, []
    for record in weblog(Weblog(events=20_000, late=0.2)):
        if record.kind == LATE:
            behind.append((newest - record.event.time_ms) / 60_000)
        newest = max(newest, record.event.time_ms)
    assert sum(minutes > 4 for minutes in behind) > 0.97 * len(behind)
    assert sum(minutes > 60 for minutes in behind) > 0.3 * len(behind)
    assert max(behind) > 24 * 60


def test_out_of_order_moves_events_only_past_their_neighbours():
    sent = [int(record.event.id.split("-")[1]) for record in weblog(Weblog(events=5000, out_of_order=0.3))]
    moved = [abs(place - number) for place, number in enumerate(sent)]
    assert 0 < max(moved) <= 10
    assert sorted(sent) == list(range(5000))


def test_a_duplicate_has_the_same_bytes_and_comes_after_the_first(nasty):
    first: dict[bytes, bytes] = {}
    for record in nasty:
        if record.kind in (DUPLICATE, FAR_DUPLICATE):
            assert first[record.key] == record.value
        elif record.event:
            first[record.key] = record.value


def test_far_duplicates_come_after_everything_else():
    kinds = [record.kind for record in weblog(Weblog(events=5000, duplicates=0.1, duplicates_far=0.1))]
    assert FAR_DUPLICATE not in kinds[: kinds.index(FAR_DUPLICATE)]
    assert set(kinds[kinds.index(FAR_DUPLICATE) :]) == {FAR_DUPLICATE}


def test_every_well_formed_record_is_json_with_the_schema_of_requests(nasty):
    for record in nasty:
        if record.event:
            row = json.loads(record.value)
            assert set(row) - {"bytes"} == {"id", "time", "host", "url", "status"}
            assert row["id"] == record.event.id == record.key.decode()
            assert row["url"] == record.event.url
            assert row.get("bytes") == record.event.bytes


def test_bytes_are_heavy_tailed_and_sometimes_null_or_absent():
    rows = [json.loads(record.value) for record in weblog(Weblog(events=20_000))]
    sizes = sorted(row["bytes"] for row in rows if row.get("bytes") is not None)
    assert sizes[-1] > 100 * sizes[len(sizes) // 2]
    assert any("bytes" not in row for row in rows)
    assert any(row.get("bytes", 0) is None for row in rows)


def test_pages_and_hosts_are_skewed_as_by_zipf():
    hits = Counter(record.event.url for record in weblog(Weblog(events=20_000)))
    (_, first), (_, second) = hits.most_common(2)
    assert first / second == pytest.approx(2**1.05, rel=0.1)
    assert len(hits) > 400


def test_the_rhythm_follows_the_clock_of_the_zone_and_skips_the_missing_hour():
    hours = schedule(100_000, 3, date(2024, 3, 8), NEW_YORK)
    local = [datetime.fromtimestamp(hour.start_ms / 1000, NEW_YORK) for hour in hours]
    assert len(hours) == 24 + 24 + 23
    assert [moment.hour for moment in local if moment.date() == date(2024, 3, 10)] == [
        0, 1, *range(3, 24),
    ]  # fmt: skip
    busiest = max(zip(hours, local, strict=True), key=lambda pair: pair[0].events)
    assert busiest[1].hour == 13
    assert sum(hour.events for hour in hours) == 100_000


def test_a_day_with_25_hours_and_zones_with_half_hours_are_covered_without_gaps():
    for zone, day in (("America/New_York", date(2024, 11, 3)), ("Australia/Lord_Howe", date(2024, 4, 7))):
        hours = schedule(1000, 1, day, ZoneInfo(zone))
        for one, other in pairwise(hours):
            assert one.start_ms + one.length_ms == other.start_ms
        assert sum(hour.events for hour in hours) == 1000
        midnight = datetime(day.year, day.month, day.day + 1, tzinfo=ZoneInfo(zone))
        assert end_ms(hours) == midnight.timestamp() * 1000


def test_a_moment_has_the_position_that_the_schedule_plans_for_it():
    hours = schedule(1000, 1, date(2024, 3, 8), NEW_YORK)
    assert position_at(hours, hours[0].start_ms) == 0
    assert position_at(hours, hours[5].start_ms) == hours[5].before
    assert position_at(hours, end_ms(hours) + 10**9) == 1000


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share, value):
    with pytest.raises(BraidError, match=f"--{share.replace('_', '-')} {value} is not a share"):
        Weblog(**{share: value})


def test_no_events_or_days_beyond_the_calendar_are_refused():
    with pytest.raises(BraidError, match="--events 0 is too few"):
        Weblog(events=0)
    with pytest.raises(BraidError, match="leave the calendar"):
        Weblog(start=date(9999, 12, 30))


def test_shares_of_1_and_a_single_event_still_make_a_run():
    everything = Weblog(events=1, late=1, duplicates=1, duplicates_far=1, out_of_order=1)
    assert [record.kind for record in weblog(everything)] == [LATE, DUPLICATE, FAR_DUPLICATE]
    assert all(record.event is None for record in weblog(Weblog(events=500, malformed=1)))
