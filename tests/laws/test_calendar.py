"""Panes and windows follow the local clock, in Python and in Spark alike."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from braid import sliding, tumbling
from braid.define.durations import parse_duration
from braid.define.windows import Fixed
from braid.states import spark_calendar
from braid.states.calendar import local_day, pane_start, windows_of

ZONES = (
    "UTC",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
)
LENGTHS = ("1 second", "1 minute", "15 minutes", "16 minutes", "20 minutes", "45 minutes", "1 hour", "90 minutes",
           "2 hours", "6 hours", "1 day")  # fmt: skip
NEW_YORK = ZoneInfo("America/New_York")
# Lord Howe moves its clock by half an hour, and Sao Paulo used to at midnight.
CHANGES = [
    datetime(2024, 3, 10, 7, tzinfo=UTC),
    datetime(2024, 11, 3, 6, tzinfo=UTC),
    datetime(2024, 4, 6, 15, tzinfo=UTC),
    datetime(2024, 10, 5, 15, 30, tzinfo=UTC),
    datetime(2018, 11, 4, 3, tzinfo=UTC),
    datetime(2018, 2, 18, 2, tzinfo=UTC),
]
MOMENTS = st.builds(
    lambda at, seconds: at + timedelta(seconds=seconds), st.sampled_from(CHANGES), st.floats(-90_000, 90_000)
)


def minutes_of(day: str, length: str) -> Counter[datetime]:
    """How many minutes of a local day fall into each of its panes."""
    midnight = datetime.fromisoformat(day).replace(tzinfo=NEW_YORK).astimezone(UTC)
    every_minute = [midnight + timedelta(minutes=m) for m in range(25 * 60)]
    of_the_day = [t for t in every_minute if local_day(t, NEW_YORK).isoformat() == day]
    return Counter(pane_start(t, parse_duration(length), NEW_YORK) for t in of_the_day)


@pytest.mark.parametrize(("day", "hours"), [("2024-03-10", 23), ("2024-03-11", 24), ("2024-11-03", 25)])
def test_a_day_has_as_many_hours_as_the_clock_says(day: str, hours: int) -> None:
    assert list(minutes_of(day, "1 day").values()) == [60 * hours]
    assert list(minutes_of(day, "1 hour").values()) == [60] * hours


def test_a_pane_of_six_hours_is_six_on_the_wall() -> None:
    assert sorted(minutes_of("2024-03-10", "6 hours").values()) == [300, 360, 360, 360]
    assert sorted(minutes_of("2024-11-03", "6 hours").values()) == [360, 360, 360, 420]


def test_a_day_of_25_hours_ends_when_the_next_begins() -> None:
    [(start, end)] = windows_of(datetime(2024, 11, 3, 12, tzinfo=UTC), tumbling("1 day"), NEW_YORK)
    assert (start, end - start) == (datetime(2024, 11, 3, 4, tzinfo=UTC), timedelta(hours=25))


def test_windows_of_seven_days_begin_on_monday() -> None:
    [(start, _)] = windows_of(datetime(2024, 3, 14, tzinfo=UTC), tumbling("7 days"), ZoneInfo("UTC"))
    assert start == datetime(2024, 3, 11, tzinfo=UTC)


def test_an_hour_in_kolkata_begins_at_half_past_in_utc() -> None:
    start = pane_start(datetime(2024, 5, 1, 10, 45, tzinfo=UTC), timedelta(hours=1), ZoneInfo("Asia/Kolkata"))
    assert start == datetime(2024, 5, 1, 10, 30, tzinfo=UTC)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(moment=MOMENTS, zone=st.sampled_from(ZONES), length=st.sampled_from(LENGTHS))
def test_a_pane_begins_before_its_events_and_is_in_itself(moment: datetime, zone: str, length: str) -> None:
    start = pane_start(moment, parse_duration(length), ZoneInfo(zone))
    assert timedelta() <= moment - start < parse_duration(length) + timedelta(hours=1)
    assert pane_start(start, parse_duration(length), ZoneInfo(zone)) == start


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    moment=MOMENTS,
    zone=st.sampled_from(ZONES),
    length=st.sampled_from(LENGTHS),
    hours=st.sampled_from((2, 24)),
)
def test_a_grain_of_a_pane_is_the_grain_of_its_events(
    moment: datetime, zone: str, length: str, hours: int
) -> None:
    grain = tumbling(timedelta(hours=hours))
    if not grain.size % parse_duration(length):
        pane = pane_start(moment, parse_duration(length), ZoneInfo(zone))
        assert windows_of(pane, grain, ZoneInfo(zone)) == windows_of(moment, grain, ZoneInfo(zone))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(moment=MOMENTS, zone=st.sampled_from(ZONES), length=st.sampled_from(LENGTHS))
def test_a_tumbling_window_holds_its_events_and_ends_where_the_next_begins(
    moment: datetime, zone: str, length: str
) -> None:
    [(start, end)] = windows_of(moment, tumbling(length), ZoneInfo(zone))
    assert start <= moment < end
    assert windows_of(end, tumbling(length), ZoneInfo(zone))[0][0] == end


def test_spark_places_panes_and_windows_as_python_does_where_the_clock_moves_by_half_an_hour(
    spark: SparkSession,
) -> None:
    zone = "Australia/Lord_Howe"
    moments = [at + timedelta(minutes=7 * k, microseconds=k) for at in CHANGES for k in range(-30, 31)]
    windows = [
        *map(tumbling, ("1 minute", "16 minutes", "1 hour", "6 hours", "1 day")),
        sliding("3 hours", every="1 hour"),
        sliding("14 days", every="7 days"),
    ]
    rows = spark.createDataFrame([(moment,) for moment in moments], "time timestamp")
    frames = [placed_by_spark(rows, window, zone, i) for i, window in enumerate(windows)]
    union = frames[0]
    for other in frames[1:]:
        union = union.unionAll(other)
    got = {tuple(row.values()) for row in union.toArrow().to_pylist()}
    want = {
        (i, moment, pane, *bounds)
        for i, window in enumerate(windows)
        for moment in moments
        for pane in [pane_start(moment, window.pane, ZoneInfo(zone))]
        for bounds in windows_of(pane, window, ZoneInfo(zone))
    }
    assert got == want


def placed_by_spark(
    rows: spark_calendar.DataFrame, window: Fixed, zone: str, i: int
) -> spark_calendar.DataFrame:
    panes = rows.withColumn("pane", spark_calendar.pane_start(F.col("time"), window.pane, zone))
    placed = spark_calendar.in_windows(panes, window, zone)
    return placed.select(F.lit(i).alias("i"), "time", "pane", "window_start", "window_end")
