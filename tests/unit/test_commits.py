"""What a writer says in its commits reads back, and epochs never go backwards."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from braid.tables.commits import Commit, epoch_of, next_epoch

MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(tzinfo=UTC)
)
LENGTHS = st.sampled_from(
    [timedelta(seconds=1), timedelta(minutes=1), timedelta(minutes=7), timedelta(hours=1)]
)
POSITIONS = st.dictionaries(st.integers(0, 20).map(str), st.integers(0, 2**60), max_size=4)


@given(st.builds(
    Commit, query=st.uuids().map(str), batch=st.integers(-1, 2**40), epoch=MOMENTS, clock=MOMENTS, beat=st.booleans(),
    start=POSITIONS, end=POSITIONS, duplicates=st.integers(0, 2**40), uncounted=st.integers(0, 9),
    unknown_fields=st.lists(st.text(max_size=5), max_size=3).map(tuple),
))  # fmt: skip
def test_a_commit_reads_back_as_it_was_written(commit: Commit) -> None:
    assert Commit.from_json(commit.to_json()) == commit


@given(st.one_of(st.none(), st.text(), st.sampled_from(["{}", '{"braid": 2}', "[1]", '"braid"', "null"])))
def test_metadata_of_others_is_not_taken_for_ours(text: str | None) -> None:
    assert Commit.from_json(text) is None


@given(MOMENTS, LENGTHS)
def test_an_epoch_contains_its_moment(moment: datetime, length: timedelta) -> None:
    epoch = epoch_of(moment, length)
    assert epoch <= moment < epoch + length
    assert epoch_of(epoch, length) == epoch


@given(st.lists(MOMENTS, min_size=1, max_size=20), LENGTHS)
def test_epochs_never_decrease_whatever_the_clock_does(clock: list[datetime], length: timedelta) -> None:
    last: datetime | None = None
    for now in clock:
        following = next_epoch(last, now, length)
        assert last is None or following >= last
        assert following >= epoch_of(now, length)
        last = following
