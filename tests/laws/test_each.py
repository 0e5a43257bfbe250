"""An event counts once for each element of an array: what the twin says of events that were repeated by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from braid import (
    Source,
    View,
    all_time,
    approx_distinct,
    count,
    max_,
    quantile,
    session,
    sliding,
    stddev,
    sum_,
)
from braid.define.windows import Window
from braid.log.events import view_events
from braid.states import arrow
from braid.states import spark as states
from tests.laws import harness

SOURCE = Source(
    name="events", kafka_topic="events", event_time="time", timezone=harness.NEW_YORK,
    schema="batch int, time timestamp, case int, n bigint, tags array<string>",
)  # fmt: skip
MEASURES = {
    "events": count(), "named": count("tag"), "n_sum": sum_("n"), "greatest": max_("tag"), "spread": stddev("n"),
    "tags": approx_distinct("tag"), "n_median": quantile("n", 0.5),
}  # fmt: skip
SCHEMA = pa.schema(
    {
        "batch": pa.int32(), "time": pa.timestamp("us", tz="UTC"), "case": pa.int32(), "n": pa.int64(),
        "tags": pa.list_(pa.string()), "day": pa.date32(), "_epoch": pa.timestamp("us", tz="UTC"),
        "_error": pa.string(),
    }
)  # fmt: skip
NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)
WINDOWS = {
    "slides": sliding("5 minutes", every="1 minute"),
    "session": session("2 minutes"),
    "ever": all_time(),
}
TAGS = st.none() | st.lists(st.none() | st.sampled_from(["", "a", "b", "skip", "ä"]), max_size=4)
EVENTS = st.lists(
    st.tuples(st.integers(0, 1200), st.integers(0, 5), st.integers(-9, 9), st.integers(0, 2), TAGS),
    min_size=60, max_size=100,
)  # fmt: skip


def view_of(window: Window) -> View:
    return View(
        name="law", source=SOURCE, derive={"given": "filter(tags, tag -> tag is null or tag <> 'skip')"},
        each={"tag": "given"}, where="tag is null or tag <> ''", keys=("case",), window=window, measures=MEASURES,
    )  # fmt: skip


def repeated(events: list[harness.twin.Event]) -> list[harness.twin.Event]:
    """Two loops: no array and no elements are no rows, and an element that is null is one."""
    return [
        event | {"tag": tag} for event in events for tag in event["tags"] or [] if tag not in ("", "skip")
    ]


def frame(spark: SparkSession, events: list[harness.twin.Event]) -> Any:
    more = {"day": NOON.date(), "_epoch": NOON, "_error": None}
    return spark.createDataFrame(pa.Table.from_pylist([event | more for event in events], SCHEMA))


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(drawn=EVENTS)
def test_each_element_of_an_array_is_measured_once_however_events_are_split(
    spark: SparkSession, window: Window, drawn: list[Any]
) -> None:
    events = [
        {"time": NOON + timedelta(seconds=s), "case": case, "n": n, "batch": batch, "tags": tags}
        for s, case, n, batch, tags in drawn
    ]
    view, log = view_of(window), frame(spark, events)
    whole = view_events(view, log, lambda lookup: pytest.fail("nothing is looked up"))
    parts = [view_events(view, log.where(f"batch = {batch}"), lambda lookup: log) for batch in range(3)]
    merged = pa.concat_tables(states.prepare(view, part).toArrow() for part in parts)
    harness.assert_equals_twin(
        view, states.present(view, states.prepare(view, whole)).toArrow(), repeated(events)
    )
    harness.assert_equals_twin(view, arrow.present(view, merged), repeated(events))
