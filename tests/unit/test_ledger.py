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
from speed_layer.ledger.evidence import Evidence

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
