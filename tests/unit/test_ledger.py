"""The ledger's arithmetic: ranges, and what to believe of records that the broker no longer has."""

from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from braid.tables.commits import Commit
from speed_layer.ledger.balance import (
    Account,
    Ledger,
    Violation,
    ranges,
    settle,
)
from speed_layer.ledger.evidence import Evidence, close, to_read

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
PLACES = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 40)))
NONE: frozenset[tuple[int, int]] = frozenset()


def newest(duplicates: int, uncounted: int = 0, beat: bool = True) -> Commit:
    return Commit("q", 3, NOON, NOON, beat=beat, duplicates=duplicates, uncounted=uncounted)


def evidence(duplicates: int, deleted: int) -> Evidence:
    return Evidence(
        frozenset((0, n) for n in range(duplicates)), NONE, frozenset((1, n) for n in range(deleted)), NONE
    )


@given(PLACES)
def test_ranges_cover_exactly_the_places_and_never_touch(places: frozenset[tuple[int, int]]) -> None:
    found = ranges(places)
    assert {(p, o) for p, first, last in found for o in range(first, last + 1)} == places
    assert all(a[0] < b[0] or a[2] + 1 < b[1] for a, b in pairwise(found))


def test_deleted_places_are_duplicates_when_the_engine_counted_as_many() -> None:
    settled, unproven = settle(evidence(duplicates=2, deleted=3), newest(duplicates=5))
    assert (len(settled.duplicates), settled.deleted, unproven) == (5, NONE, NONE)


def test_deleted_places_are_a_gap_when_the_engine_counted_fewer() -> None:
    settled, unproven = settle(evidence(duplicates=2, deleted=3), newest(duplicates=4))
    assert (len(settled.deleted), unproven) == (3, NONE)


def test_deleted_places_are_unproven_when_a_crash_took_the_engines_count() -> None:
    settled, unproven = settle(evidence(duplicates=2, deleted=3), newest(duplicates=2, uncounted=1))
    assert (settled.deleted, len(unproven)) == (NONE, 3)


def test_the_books_balance_only_when_every_place_is_accounted_for() -> None:
    whole = Account(0, 10, 20, 10, accepted=5, rejected=2, duplicates=2, markers=1, unproven=0)
    short = Account(1, 0, 10, 10, accepted=5, rejected=2, duplicates=2, markers=0, unproven=0)
    violation = Violation("lost", 0, 3, 3, "")
    requeued: dict[str, int] = {}
    assert Ledger("s", (whole,), (), 2, 0, 0, requeued).balanced
    assert not Ledger("s", (whole, short), (), 2, 0, 0, requeued).balanced
    assert not Ledger("s", (whole,), (violation,), 2, 0, 0, requeued).balanced


def test_only_what_the_broker_has_is_read_and_near_holes_in_one_go() -> None:
    holes = [(0, 5, 9), (0, 20, 20), (0, 5000, 5001), (1, 0, 3), (7, 0, 9)]
    spans = to_read(holes, {"0": 7, "1": 10}, {"0": 5001, "1": 20})
    assert spans == {0: [(7, 21), (5000, 5001)]}


def test_a_file_that_is_gone_counts_by_what_the_log_holds_of_it() -> None:
    """Files 1 and 2 are in the log, of which 2 was removed since; 3 was never read, 4 holds nothing but duplicates."""
    duplicates, lost = frozenset({(1, 2), (4, 0)}), frozenset({(1, 3), (3, 0), (3, 1)})
    consumed, found, waiting = close({1: 2, 2: 5}, {1: 4, 3: 2, 4: 1}, duplicates, lost)
    assert consumed == {1: (0, 4), 2: (0, 5), 4: (0, 1)}
    assert (found.lost, waiting) == (frozenset({(1, 3)}), 2)
