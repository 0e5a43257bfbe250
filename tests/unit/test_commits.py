"""What a writer says in its commits reads back, and epochs never go backwards."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.tables import commits
from braid.tables.commits import (
    Commit,
    epoch_of,
    keep,
    keep_no_more,
    newest_commit,
    newest_tail_commit,
    next_epoch,
)

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


def test_what_is_kept_of_a_writer_is_found_when_its_commits_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = [3]
    monkeypatch.setattr(commits, "turns", lambda table: taken[0])
    log = tmp_path / "_delta_log"
    log.mkdir()
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    said = Commit("q", 7, moment, moment)
    (log / f"{8:020d}.json").write_text(json.dumps({"commitInfo": {"userMetadata": said.to_json()}}))
    (log / f"{9:020d}.json").write_text('{"commitInfo": {"operation": "OPTIMIZE"}}')
    (log / "_last_checkpoint").write_text('{"version": 9}')
    table = str(tmp_path)
    keep(table, replace(said, batch=5), 3)
    assert newest_commit(table) == said, "a commit is newer than what is kept"
    (log / f"{8:020d}.json").unlink()
    assert newest_commit(table) == replace(said, batch=5)
    assert newest_tail_commit(table) is None
    taken[0] = 4
    assert newest_commit(table) is None, "another engine has committed since, and its commits are gone too"
    taken[0] = 3
    keep_no_more(table)
    assert newest_commit(table) is None


@pytest.mark.parametrize("waited", [0, 59, 60, 150])
def test_behind_the_last_epoch_the_time_that_passes_moves_it_on(waited: int) -> None:
    last, minute = datetime(2036, 1, 1, tzinfo=UTC), timedelta(minutes=1)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert next_epoch(last, now, minute, timedelta(seconds=waited)) == last + waited // 60 * minute
