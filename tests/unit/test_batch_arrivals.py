"""What came when, and whose the rejected records are."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_layer.arrivals import Arrival, Arrivals
from braid.states.spark_calendar import on_days

MONDAY, TUESDAY = date(2026, 3, 2), date(2026, 3, 3)
NOON = datetime(2026, 3, 3, 12, tzinfo=UTC)


def at(minute: int) -> datetime:
    return NOON + timedelta(minutes=minute)


def test_events_are_counted_up_to_a_cut_and_beyond_it() -> None:
    known = Arrivals(
        (Arrival(MONDAY, at(0), 5, 0), Arrival(MONDAY, at(2), 3, 1), Arrival(MONDAY, at(4), 2, 0))
    )
    assert known.events(MONDAY, at(2)) == 8
    assert known.beyond(MONDAY, at(0), at(4)) == (5, at(2))
    assert known.beyond(MONDAY, at(4), at(9)) == (0, None)
    assert known.events(TUESDAY, at(9)) == 0


def test_rejected_records_are_shared_out_by_the_events_that_came_with_them() -> None:
    known = Arrivals(
        (
            Arrival(MONDAY, at(0), 30, 0),
            Arrival(TUESDAY, at(0), 10, 8),
            Arrival(TUESDAY, at(1), 5, 5),
            Arrival(TUESDAY, at(2), 0, 7),
        )
    )
    assert known.rejected_with(MONDAY, at(9)) == pytest.approx(6)
    assert known.rejected_with(TUESDAY, at(9)) == pytest.approx(2 + 5 + 7)
    assert known.rejected_with(TUESDAY, at(0)) == pytest.approx(2)


rows = st.lists(
    st.tuples(st.sampled_from([MONDAY, TUESDAY]), st.integers(0, 5), st.integers(0, 9), st.integers(0, 9)),
    unique_by=lambda row: row[:2],
)


@given(rows)
def test_every_rejected_record_is_somebodys(found: list[tuple[date, int, int, int]]) -> None:
    known = Arrivals(tuple(Arrival(day, at(minute), good, bad) for day, minute, good, bad in found))
    shared = sum(known.rejected_with(day, at(9)) for day in (MONDAY, TUESDAY))
    assert shared == pytest.approx(sum(bad for *_, bad in found))


def test_trailing_days_are_the_ones_before_that_had_events() -> None:
    days = [TUESDAY - timedelta(days=back) for back in (1, 3, 40)]
    known = Arrivals(tuple(Arrival(day, at(0), 10 * n, 0) for n, day in enumerate(days, start=1)))
    assert known.trailing(TUESDAY, at(0), 31) == (20, 10)
    assert known.trailing(TUESDAY, at(0), 1) == (10,)


def test_questions_about_a_year_of_live_epochs_cost_what_their_days_have() -> None:
    """Each of 400 days has 200 epochs. Walking all rows for each day, this would take minutes."""
    first = date(2025, 1, 1)
    known = Arrivals(
        tuple(
            Arrival(first + timedelta(days=day), at(200 * day + epoch), 1, 1)
            for day in range(400)
            for epoch in range(200)
        )
    )
    end = at(200 * 400)
    for day in known.days:
        assert known.events(day, end) == 200
        assert known.rejected_with(day, end) == 200
        assert sum(known.trailing(day, end, 31)) <= 31 * 200
        assert known.beyond(day, NOON - timedelta(days=1), end)[0] == 200


@given(chosen=st.sets(st.integers(0, 40), min_size=1))
def test_a_condition_on_days_means_these_days_and_no_others(chosen: set[int]) -> None:
    days = [date(2024, 2, 10) + timedelta(days=n) for n in range(41)]
    values = ", ".join(f"(date'{day}')" for day in days)
    wanted = [days[n] for n in sorted(chosen)]
    found = duckdb.sql(f"select day from (values {values}) as t(day) where {on_days(wanted)} order by day")
    assert [row[0] for row in found.fetchall()] == wanted
    in_a_row = sum(after - before > 1 for before, after in pairwise(sorted(chosen))) + 1
    assert on_days(wanted).count(" or ") == in_a_row - 1
