"""Every window obeys the laws: assembled from panes or partial sessions, it equals brute force over the events."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from braid import all_time, count, max_, quantile, session, sliding, sum_, tumbling
from braid.define.windows import Window
from braid.measures import Measure
from braid.states import arrow
from braid.states import spark as states
from tests.laws import harness

FEW = {"events": count(), "n_sum": sum_("n"), "newest": max_("time"), "n_median": quantile("n", 0.5)}
SPRING = datetime(2024, 3, 10, 7, tzinfo=UTC)
AUTUMN = datetime(2024, 11, 3, 6, tzinfo=UTC)
WINDOWS = {
    "1 minute": tumbling("1 minute"),
    "5 minutes every minute": sliding("5 minutes", every="1 minute"),
    "1 hour": tumbling("1 hour"),
    "3 hours every hour": sliding("3 hours", every="1 hour"),
    "6 hours": tumbling("6 hours"),
    "1 day": tumbling("1 day"),
    "1 day every 6 hours": sliding("1 day", every="6 hours"),
    "7 days": tumbling("7 days"),
    "14 days every 7": sliding("14 days", every="7 days"),
    "session": session(gap="30 minutes"),
    "all time": all_time(),
}
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([SPRING, AUTUMN]),
        st.integers(-4 * 86_400, 4 * 86_400)
        | st.integers(-7_200, 7_200)
        | st.integers(-5, 5).map(lambda k: 1_800 * k),
        st.integers(-9, 9),
        st.integers(0, 12),
        st.integers(0, 3),
    ),
    min_size=100,
    max_size=150,
).filter(lambda drawn: len(set(drawn)) > len(drawn) // 2)  # Hypothesis begins with copies of one event


def as_events(drawn: list[tuple[datetime, int, int, int, int]]) -> list[harness.twin.Event]:
    nothing = {"host": None, "status": None, "price": None, "x": None}
    return [
        nothing | {"time": at + timedelta(seconds=seconds), "n": n, "case": case, "batch": batch}
        for at, seconds, n, case, batch in drawn
    ]


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(drawn=EVENTS)
def test_windows_around_a_change_of_the_clock_equal_brute_force(
    spark: SparkSession, window: Window, drawn: list[tuple[datetime, int, int, int, int]]
) -> None:
    view, events = harness.view(window, FEW), as_events(drawn)
    by_batch = states.prepare(view, harness.frame(spark, events), extra=["batch"])
    in_spark = states.present(view, by_batch.drop("batch")).toArrow()
    harness.assert_equals_twin(view, in_spark, events)
    in_arrow = arrow.present(view, by_batch.drop("batch").toArrow())
    harness.assert_equals_twin(view, in_arrow, events)


MANY = ("1 minute", "5 minutes every minute", "1 day", "session", "all time")


@pytest.mark.parametrize("name", MANY)
def test_ten_thousand_events_in_random_batches_and_order_equal_one_batch(
    spark: SparkSession, name: str
) -> None:
    view = harness.view(WINDOWS[name], harness.ONE_OF_EACH)
    hours, cases = {"1 minute": (2, 3), "5 minutes every minute": (2, 3), "session": (48, 40)}.get(
        name, (48, 3)
    )
    events = harness.random_events(10_000, 11, AUTUMN - timedelta(hours=1), hours * 3_600, cases)
    rows = harness.frame(spark, events)
    one_batch = states.present(view, states.prepare(view, rows)).toArrow()
    by_batch = states.prepare(view, rows, extra=["batch"]).toArrow()
    shuffled = spark.createDataFrame(by_batch.drop_columns("batch")).orderBy(F.rand(seed=7))
    harness.assert_same_numbers(one_batch, states.present(view, states.merge(view, shuffled)).toArrow())

    merged = None
    for part in harness.parts_of(by_batch, seed=3):
        merged = arrow.merge(view, part if merged is None else pa.concat_tables([part, merged]))
    harness.assert_same_numbers(one_batch, arrow.present(view, merged))


@pytest.mark.parametrize(
    ("name", "grain"),
    [
        ("1 minute", "1 hour"),
        ("5 minutes every minute", "1 day"),
        ("1 hour", "6 hours"),
        ("all time", "7 days"),
    ],
)
def test_a_grain_on_reading_equals_windows_of_that_size(spark: SparkSession, name: str, grain: str) -> None:
    view = harness.view(WINDOWS[name], FEW)
    events = harness.random_events(300, 2, AUTUMN - timedelta(days=3), 6 * 86_400)
    prepared = states.prepare(view, harness.frame(spark, events))
    harness.assert_equals_twin(view, states.present(view, prepared, grain).toArrow(), events, tumbling(grain))
    harness.assert_equals_twin(view, arrow.present(view, prepared.toArrow(), grain), events, tumbling(grain))


@pytest.mark.parametrize("measures", [FEW, {"events": count()}], ids=["with a histogram", "without"])
def test_sessions_are_those_of_spark_session_window(
    spark: SparkSession, measures: dict[str, Measure]
) -> None:
    view = harness.view(session(gap="10 seconds"), measures, timezone="UTC")
    at = [0, 10, 20, 31, 50, 61, 71, 100]
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    events = [
        {"time": noon + timedelta(seconds=s), "host": None, "n": 1, "status": None, "price": None, "x": None}
        for s in at
    ]
    rows = harness.frame(spark, events, timezone="UTC")
    native = rows.groupBy("case", F.session_window("time", "10 seconds").alias("w")).count()
    want = {(r["w"]["start"], r["w"]["end"], r["count"]) for r in native.collect()}
    got = states.present(view, states.prepare(view, rows)).collect()
    assert {(r["window_start"], r["window_end"], r["events"]) for r in got} == want
    assert len(want) == 5
