"""The rules of the cut over plain moments."""

from datetime import UTC, datetime, timedelta

from braid import cut

NOON, MINUTE = datetime(2026, 3, 1, 12, tzinfo=UTC), timedelta(minutes=1)


def test_the_newest_epoch_is_never_closed() -> None:
    assert cut.last_closed(NOON, MINUTE) == NOON - MINUTE


def test_what_several_logs_share_is_what_the_slowest_has() -> None:
    assert cut.common([NOON, NOON - MINUTE]) == NOON - MINUTE
    assert cut.common([]) is None


def test_a_days_cut_never_goes_back() -> None:
    assert cut.effective(NOON, None, None) == NOON
    assert cut.effective(NOON, NOON + MINUTE, None) == NOON + MINUTE
    assert cut.effective(NOON, NOON - MINUTE, NOON + 2 * MINUTE) == NOON + 2 * MINUTE


def test_versions_are_compared_where_all_are_complete_and_no_base_is_ahead() -> None:
    complete = [NOON, NOON + MINUTE]
    assert cut.comparable(complete, []) == NOON
    assert cut.comparable(complete, [NOON]) == NOON
    assert cut.comparable(complete, [NOON, NOON + MINUTE]) is None
