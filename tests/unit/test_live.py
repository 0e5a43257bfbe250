"""Companion a log at its end: which commits are read together, and what is refused rather than passed over."""

import json
import shutil
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from braid.errors import BraidError
from braid.tables import delta_rs
from braid.tables.commits import Position, TailCommit
from speed_layer.stream import follower as live
from speed_layer.stream.follower import Companion, LogFollower
from speed_layer.stream.tail import TailWriter
from tests.waiting import until


@pytest.fixture(autouse=True)
def no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """These logs are commits alone: nothing in them says which table they are."""
    monkeypatch.setattr(delta_rs, "table_id", lambda location: None)


class Writer:
    """Notes what it is given to follow, and stands where that ended."""

    def __init__(self, table: Path, version: int) -> None:
        self.lock, self.stopping = threading.RLock(), threading.Event()
        self.log, self.view = SimpleNamespace(table=str(table)), SimpleNamespace(name="hits")
        self.tables = SimpleNamespace(view="hits")
        self.spark = SimpleNamespace(
            sparkContext=SimpleNamespace(
                setLocalProperty=lambda *_: None, setJobGroup=lambda *_: None, cancelJobGroup=lambda *_: None
            )
        )
        self.last = TailCommit("q", 0, Position(version), log="it", read=f"of {version - 1}")
        self.followed: list[list[int]] = []

    def take(self, commits: list[Any], read: Any) -> None:
        self.followed.append([commit.version for commit in commits])
        self.last = TailCommit("q", 0, Position(commits[-1].version + 1), log="it", read=commits[-1].mark)


@dataclass
class Reading:
    """Notes who is read for together; nothing is computed here."""

    together: list[int] = field(default_factory=list)

    def __call__(self, writers: Any, commits: Any) -> list[Any]:
        self.together.append(len(writers))
        return [None] * len(writers)


def commit(
    table: Path, version: int, rows: int = 10, size: int = 100, taken: bool = False, mark: str = ""
) -> None:
    file = table / "_delta_log" / f"{version:020d}.json"
    file.parent.mkdir(exist_ok=True)
    action: dict[str, Any] = {
        "path": f"{version}.parquet",
        "size": size,
        "partitionValues": {},
        "dataChange": True,
    }
    lines = [
        {"commitInfo": {"operationMetrics": {"numOutputRows": str(rows)}, "txnId": mark or f"of {version}"}},
        {"remove" if taken else "add": action},
    ]
    # Whole or not there, as a commit is.
    draft = file.with_suffix(".draft")
    draft.write_text("\n".join(map(json.dumps, lines)))
    draft.rename(file)


def followed_by(writer: Any, reader: Any) -> Companion:
    following = Companion(writer)
    following.follow(reader)
    return following


def reader_of(writer: Any, once: bool = False, read: Any = None) -> LogFollower:
    return LogFollower("stream hits v1", writer.log, once=once, read=read or Reading())


def read_all(writer: Any) -> Companion:
    following = followed_by(writer, reader_of(writer, once=True))
    following.join()
    return following


def test_what_is_there_is_read_in_order_and_once(tmp_path: Path) -> None:
    for version in range(6):
        commit(tmp_path, version)
    writer = Writer(tmp_path, 2)
    assert read_all(writer).rows == 40
    assert writer.followed == [[2, 3, 4, 5]]
    assert read_all(writer).rows == 0


@pytest.mark.parametrize(("limit", "value"), [("MOST_COMMITS", 2), ("MOST_BYTES", 150)])
def test_a_long_backlog_is_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(live, limit, value)
    for version in range(5):
        commit(tmp_path, version)
    writer = Writer(tmp_path, 0)
    read_all(writer)
    assert writer.followed == [[0, 1], [2, 3], [4]]


def test_a_commit_that_takes_rows_away_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    commit(tmp_path, 0)
    commit(tmp_path, 1, taken=True)
    writer = Writer(tmp_path, 0)
    failure = read_all(writer).failure
    assert isinstance(failure, BraidError)
    assert "commit 1 of the log" in str(failure)
    assert "`braid kappa replay hits`" in str(failure)
    assert writer.followed == []


def test_a_commit_whose_retention_is_over_is_not_waited_for(tmp_path: Path) -> None:
    for version in (7, 8):
        commit(tmp_path, version)
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text('{"version": 7}')
    failure = read_all(Writer(tmp_path, 3)).failure
    assert isinstance(failure, BraidError)
    assert "commit 3 of the log" in str(failure)
    assert "up to 8" in str(failure)


@pytest.mark.parametrize(
    ("again", "why"),
    [
        (2, "it ends at commit 1, and commit 2 was read"),
        (4, "commit 2 is another than the one that was read"),
    ],
    ids=["shorter", "longer"],
)
def test_a_log_that_another_one_takes_the_place_of_under_a_running_stream_is_not_read(
    tmp_path: Path, again: int, why: str
) -> None:
    for version in range(3):
        commit(tmp_path, version)
    now = [100.0]
    writer: Any = Writer(tmp_path, 1)
    reader = reader_of(writer)
    reader.clock = lambda: now[0]
    following = followed_by(writer, reader)
    until(lambda: writer.followed == [[1, 2]])
    # As it is restored and ingested again: other commits under the same numbers.
    shutil.rmtree(tmp_path / "_delta_log")
    for version in range(again):
        commit(tmp_path, version, mark=f"another {version}")
    now[0] += live.SUSPECT_EVERY
    try:
        until(lambda: not following.is_active, timeout=10)
    finally:
        following.stop()
    assert isinstance(following.failure, BraidError)
    assert why in str(following.failure)
    assert "`braid kappa replay hits`" in str(following.failure)
    assert writer.followed == [[1, 2]]


def test_whether_a_log_is_the_same_is_looked_up_at_the_first_round_and_not_at_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open its table takes longer than to read a commit: where a tail of old does not say what it has read, once."""
    monkeypatch.setattr(live, "MOST_COMMITS", 1)
    asked: list[str] = []
    monkeypatch.setattr(delta_rs, "table_id", asked.append)
    for version in range(6):
        commit(tmp_path, version)
    writer = Writer(tmp_path, 1)
    writer.last = replace(writer.last, read="")
    read_all(writer)
    assert writer.followed == [[1], [2], [3], [4], [5]]
    assert len(asked) == 2, "at the first round, and when nothing more is there"


def test_a_tail_whose_newest_commit_is_in_doubt_is_not_followed() -> None:
    """Nothing is read or written: whether the batch is there is only known after the next start has looked."""
    nothing: Any = None
    view: Any = SimpleNamespace(name="hits")
    last: Any = SimpleNamespace(position=Position(3))
    writer = TailWriter(
        spark=nothing, checkpoint=nothing, view=view, tables=nothing, log=nothing, clock=nothing, last=last
    )
    writer.in_doubt = True
    with pytest.raises(RuntimeError, match="in doubt"):
        writer.take([], nothing)


def test_it_waits_for_the_next_commit_until_it_is_told_to_stop(tmp_path: Path) -> None:
    commit(tmp_path, 0)
    writer: Any = Writer(tmp_path, 0)
    following = followed_by(writer, reader_of(writer))
    until(lambda: writer.followed)
    commit(tmp_path, 1)
    until(lambda: len(writer.followed) == 2)
    assert following.is_active
    following.stop()
    assert (following.failure, following.is_active) == (None, False)
    assert writer.followed == [[0], [1]]


def test_a_round_that_does_not_end_is_cut_off_when_its_stream_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(tmp_path, 0)
    writer: Any = Writer(tmp_path, 0)
    begun, cancelled = threading.Event(), threading.Event()

    def hangs(writers: Any, commits: Any) -> list[Any]:
        begun.set()
        assert cancelled.wait(60)
        return [RuntimeError("cancelled")]

    writer.spark.sparkContext.cancelJobGroup = lambda name: cancelled.set()
    monkeypatch.setattr(live, "STOP_PATIENCE", 0.5)
    following = followed_by(writer, reader_of(writer, read=hangs))
    assert begun.wait(60)
    following.stop()
    assert cancelled.is_set()
    assert not following.is_active


def test_views_that_have_read_equally_far_go_on_together_and_one_behind_joins_them_without_a_gap_or_a_double(
    tmp_path: Path,
) -> None:
    for version in range(6):
        commit(tmp_path, version)
    ahead, also, behind = (Writer(tmp_path, version) for version in (4, 4, 1))
    reading = Reading()
    reader = reader_of(ahead, read=reading)
    everybody = [followed_by(writer, reader) for writer in (behind, ahead, also)]
    until(lambda: all(one.is_at_end for one in everybody))
    commit(tmp_path, 6)
    until(lambda: all(writer.last.position.version == 7 for writer in (ahead, also, behind)))
    for one in everybody:
        one.stop()
    for writer, first in ((ahead, 4), (also, 4), (behind, 1)):
        assert [version for versions in writer.followed for version in versions] == list(range(first, 7))
    assert reading.together[-1] == 3


def test_a_view_that_fails_leaves_and_the_others_have_every_commit_once(tmp_path: Path) -> None:
    commit(tmp_path, 0)
    sound, broken, refused = (Writer(tmp_path, 0) for _ in range(3))

    def no_good(commits: Any, read: Any) -> None:
        raise RuntimeError("no good")

    def read(writers: Any, commits: Any) -> list[Any]:
        return [ValueError("not computed") if writer is refused else None for writer in writers]

    broken.take = no_good  # type: ignore[method-assign]
    reader = reader_of(sound, read=read)
    following = [followed_by(writer, reader) for writer in (broken, sound, refused)]
    until(lambda: len(sound.followed) == 1 and not following[0].is_active and not following[2].is_active)
    commit(tmp_path, 1)
    until(lambda: len(sound.followed) == 2)
    following[1].stop()
    assert [str(one.failure) for one in following] == ["no good", "None", "not computed"]
    assert sound.followed == [[0], [1]]
    assert (broken.followed, refused.followed) == ([], [])


def test_a_log_that_takes_rows_away_ends_all_who_read_it_each_with_its_own_reason(tmp_path: Path) -> None:
    commit(tmp_path, 0, taken=True)
    writers = [Writer(tmp_path, 0) for _ in range(2)]
    writers[1].view = SimpleNamespace(name="visits")
    reader = reader_of(writers[0])
    following = [followed_by(writer, reader) for writer in writers]
    for one, name in zip(following, ("hits", "visits"), strict=True):
        one.join()
        assert f"`braid kappa replay {name}`" in str(one.failure)


def test_whoever_comes_after_the_last_has_left_is_read_for_again(tmp_path: Path) -> None:
    commit(tmp_path, 0)
    first, second = Writer(tmp_path, 0), Writer(tmp_path, 0)
    reader = reader_of(first)
    for writer in (first, second):
        following = followed_by(writer, reader)
        until(lambda writer=writer: writer.followed == [[0]])
        following.stop()
