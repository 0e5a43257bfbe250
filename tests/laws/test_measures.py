"""Every measure obeys the laws: any split, any order and any grouping of merges gives the twin's number."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid import all_time, approx_distinct
from braid.states import arrow
from braid.states import spark as states
from tests.laws import harness

VIEW = harness.view(all_time())
FROM, TO = datetime(2024, 3, 9, tzinfo=UTC), datetime(2024, 3, 12, tzinfo=UTC)
EVENT = st.tuples(harness.event_strategy(harness.instants(FROM, TO)), st.integers(0, 3))
# One Spark job takes a second however small it is, so that an example is many groups of events at once.
# Hypothesis begins with the simplest example, which is the same event in every group: not worth a job.
CASES = st.lists(st.lists(EVENT, min_size=1, max_size=9), min_size=30, max_size=50).filter(
    lambda cases: len({repr(event) for case in cases for event in case}) > len(cases)
)


def flat(cases: list[list[tuple[harness.twin.Event, int]]]) -> list[harness.twin.Event]:
    return [event | {"case": i, "batch": batch} for i, case in enumerate(cases) for event, batch in case]


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(cases=CASES, seed=st.integers(0, 99))
def test_any_split_in_any_order_equals_the_naive_twin_in_spark_and_in_arrow(
    spark: SparkSession, cases: list[list[tuple[harness.twin.Event, int]]], seed: int
) -> None:
    events = flat(cases)
    by_batch = states.prepare(VIEW, harness.frame(spark, events), extra=["batch"]).cache()
    in_spark = states.present(VIEW, states.merge(VIEW, by_batch)).toArrow()
    harness.assert_equals_twin(VIEW, in_spark, events)

    merged = None
    for part in harness.parts_of(by_batch.toArrow(), seed):
        merged = arrow.merge(VIEW, part if merged is None else pa.concat_tables([part, merged]))
    in_arrow = arrow.present(VIEW, merged)
    harness.assert_equals_twin(VIEW, in_arrow, events)
    harness.assert_same_numbers(in_spark, in_arrow, floats=False)
    by_batch.unpersist()


@pytest.fixture(scope="module")
def three(spark: SparkSession) -> list[pa.Table]:
    """States of three batches of ordinary events."""
    events = [
        event | {"batch": event["batch"] % 3}
        for event in harness.random_events(900, seed=5, first=FROM, seconds=200_000)
    ]
    prepared = states.prepare(VIEW, harness.frame(spark, events), extra=["batch"]).toArrow()
    return harness.parts_of(prepared, seed=1)


def merged_in_arrow(*tables: pa.Table) -> pa.Table:
    return arrow.merge(VIEW, pa.concat_tables(tables, promote_options="permissive"))


def numbers(merged: pa.Table) -> pa.Table:
    return arrow.present(VIEW, merged)


def test_merging_in_arrow_is_associative(three: list[pa.Table]) -> None:
    a, b, c = three
    left = merged_in_arrow(merged_in_arrow(a, b), c)
    right = merged_in_arrow(a, merged_in_arrow(b, c))
    harness.assert_same_numbers(numbers(left), numbers(right))


def test_merging_in_arrow_is_commutative(three: list[pa.Table]) -> None:
    a, b, _ = three
    harness.assert_same_numbers(numbers(merged_in_arrow(a, b)), numbers(merged_in_arrow(b, a)))


def test_no_states_are_the_identity_in_arrow(three: list[pa.Table]) -> None:
    a = three[0]
    harness.assert_same_numbers(numbers(merged_in_arrow(a, a.slice(0, 0))), numbers(a), exactly=True)


def test_null_states_are_the_identity_in_arrow(three: list[pa.Table]) -> None:
    a = three[0]
    empty = pa.table(
        {
            field.name: a[field.name]
            if field.name in ("day", "pane", "case")
            else pa.nulls(len(a), field.type)
            for field in a.schema
        }
    )
    harness.assert_same_numbers(numbers(merged_in_arrow(empty, a)), numbers(a), exactly=True)


def test_merging_in_spark_is_associative_and_commutative_with_null_as_identity(
    spark: SparkSession, three: list[pa.Table]
) -> None:
    a, b, c = (spark.createDataFrame(table) for table in three)
    group = ("day", "pane", "case")
    nulls = a.select(*group, *(F.lit(None).cast(t).alias(n) for n, t in a.dtypes if n not in group))

    def merge(*frames: DataFrame) -> DataFrame:
        union = frames[0]
        for other in frames[1:]:
            union = union.unionByName(other)
        return states.merge(VIEW, union)

    left = states.present(VIEW, merge(merge(a, b), c)).toArrow()
    right = states.present(VIEW, merge(nulls, merge(c, b), a)).toArrow()
    harness.assert_same_numbers(left, right)


def test_states_merged_in_arrow_are_states_for_spark(spark: SparkSession, three: list[pa.Table]) -> None:
    merged = merged_in_arrow(*three)
    in_spark = states.present(VIEW, spark.createDataFrame(merged)).toArrow()
    harness.assert_same_numbers(in_spark, numbers(merged))


def test_no_events_are_no_rows_in_spark_and_in_arrow(spark: SparkSession) -> None:
    prepared = states.prepare(VIEW, harness.frame(spark, []))
    assert states.present(VIEW, prepared).count() == 0
    answer = arrow.present(VIEW, arrow.merge(VIEW, prepared.toArrow()))
    assert answer.num_rows == 0
    assert answer.column_names == ["case", *VIEW.measures]


def test_distinct_values_are_estimated_alike_however_they_came(spark: SparkSession) -> None:
    view = harness.view(all_time(), {"hosts": approx_distinct("host")})
    source = spark.range(20_000).select(
        F.lit(0).alias("case"),
        (F.col("id") % 5).cast("int").alias("batch"),
        F.lit(FROM).alias("time"),
        F.lit(FROM.date()).alias("day"),
        F.concat(F.lit("host"), F.col("id")).alias("host"),
    )
    one = states.prepare(view, source.coalesce(1))
    backwards = states.prepare(view, source.orderBy(F.desc("id")).coalesce(1))
    split = states.prepare(view, source, extra=["batch"]).drop("batch")
    found = set()
    for prepared in (one, backwards, split):
        found |= {states.present(view, prepared).first()["hosts"]}
        found |= set(arrow.present(view, prepared.toArrow())["hosts"].to_pylist())
    assert len(found) == 1
    assert abs(found.pop() - 20_000) < 5 * 0.01625 * 20_000
