"""Measures and windows are values that say what they are, share states, and refuse what cannot work."""

import math
from datetime import timedelta

import pytest

from braid import (
    all_time,
    approx_distinct,
    count,
    count_distinct,
    max_,
    mean,
    median,
    quantile,
    session,
    sliding,
    stddev,
    sum_,
    tumbling,
)
from braid.errors import DefinitionError
from braid.measures import Measure, refuse
from braid.states import state_columns
from tests.laws import harness

TYPES = {"host": "string", "bytes": "bigint", "wide": "decimal(38,2)", "tags": "array<string>"}


@pytest.mark.parametrize(
    "measure",
    [
        sum_("host"),
        mean("host"),
        stddev("tags"),
        quantile("host", 0.5),
        max_("tags"),
        sum_("wide"),
        approx_distinct("tags"),
    ],
)
def test_a_column_of_a_type_that_cannot_be_measured_is_refused_with_a_fix(measure: Measure) -> None:
    with pytest.raises(DefinitionError, match=r"derive=\{.*cast\("):
        measure.validate(TYPES)


@pytest.mark.parametrize(
    "measure", [sum_("bytes"), mean("wide"), count("tags"), count(), max_("host"), sum_("derived")]
)
def test_a_column_of_a_fitting_or_unknown_type_is_accepted(measure: Measure) -> None:
    measure.validate(TYPES)


def test_exact_distinct_and_median_are_refused_with_the_alternative() -> None:
    with pytest.raises(DefinitionError, match="approx_distinct"):
        count_distinct("host")
    with pytest.raises(DefinitionError, match=r"quantile\(column, 0.5\)"):
        median("bytes")


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("count(distinct host)", "approx_distinct"),
        ("Column<'percentile(bytes, 0.9)'>", "quantile"),
        ("first(x)", "min_"),
        ("sum(bytes)", "sum_"),
        ("avg(x)", "mean"),
        (count_distinct, "approx_distinct"),
        (7, "The measures are"),
    ],
)
def test_what_is_not_a_measure_is_refused_with_the_one_that_was_meant(value: object, hint: str) -> None:
    with pytest.raises(DefinitionError, match=hint):
        refuse(value)


@pytest.mark.parametrize("q", [-0.1, 1.5, math.nan, "0.5", None, True])
def test_a_quantile_outside_0_and_1_is_refused(q: float) -> None:
    with pytest.raises(DefinitionError, match="between 0 and 1"):
        quantile("bytes", q)


@pytest.mark.parametrize("column", ["", " ", 5])
def test_a_measure_of_no_column_is_refused(column: str) -> None:
    with pytest.raises(DefinitionError, match="name of a column"):
        sum_(column)


def test_measures_of_one_state_share_it() -> None:
    view = harness.view(all_time(), {"p50": quantile("n", 0.5), "p95": quantile("n", 0.95), "hits": count()})
    assert list(state_columns(view)) == ["hist_n", "count"]
    assert quantile("n", 0.5).state_spec() == quantile("n", 0.95).state_spec()
    assert quantile("n", 0.5).spec() != quantile("n", 0.95).spec()


def test_columns_that_differ_by_a_dot_have_states_of_their_own() -> None:
    assert sum_("a.b").state_name != sum_("a_b").state_name


@pytest.mark.parametrize("measure", harness.MEASURES.values(), ids=harness.MEASURES)
def test_every_measure_states_its_size_and_its_bound(measure: Measure) -> None:
    low, high = measure.state_bytes()
    assert 0 < low <= high
    assert measure.bound()
    assert measure.columns == (() if measure.column is None else (measure.column,))


@pytest.mark.parametrize(
    ("size", "every", "fix"),
    [
        ("5 minutes", "2 minutes", "'1 minute' or '5 minutes'"),
        ("7 minutes", "7 minutes", "'6 minutes' or '8 minutes'"),
        ("5 hours", "5 hours", "'4 hours' or '6 hours'"),
        ("36 hours", "1 hour", "'1 day' or '2 days'"),
        ("10 days", "4 days", "'2 days' or '5 days'"),
        ("1 minute", "5 minutes", "gaps"),
        ("100 ms", "100 ms", "1 second"),
    ],
)
def test_a_window_that_panes_do_not_fill_is_refused_with_the_nearest_that_do(
    size: str, every: str, fix: str
) -> None:
    with pytest.raises(DefinitionError, match=fix):
        sliding(size, every=every)


@pytest.mark.parametrize("grain", ["90 seconds", "7 minutes", "30 seconds", "36 hours"])
def test_a_grain_that_panes_do_not_add_up_to_is_refused(grain: str) -> None:
    with pytest.raises(DefinitionError, match=r"(use|read with) .*'"):
        tumbling("1 minute").read_as(grain)


def test_a_sliding_window_may_be_any_number_of_panes() -> None:
    assert sliding("5 hours", every="1 hour").pane == timedelta(hours=1)


def test_a_session_has_no_grain() -> None:
    with pytest.raises(DefinitionError, match="without a grain"):
        session(gap="30 minutes").read_as("1 hour")


def test_windows_stored_in_the_same_panes_have_the_same_states() -> None:
    assert sliding("5 minutes", every="1 minute").state_spec() == tumbling("1 minute").state_spec()
    assert all_time().state_spec() == tumbling("1 day").state_spec() == tumbling("7 days").state_spec()
    assert sliding("1 day", every="1 day") == tumbling("1 day")
    assert tumbling("14 days").pane == timedelta(days=1)
