"""Following a log at its end: which commits are read together, and what is refused rather than passed over."""

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from braid.errors import BraidError
from braid.tables import delta_rs
from braid.tables.commits import Position, TailCommit
from speed_layer.stream import follower as live
from speed_layer.stream.follower import LogFollower
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

    def follow(self, commits: list[Any]) -> int:
        self.followed.append([commit.version for commit in commits])
        self.last = TailCommit("q", 0, Position(commits[-1].version + 1), log="it", read=commits[-1].mark)
        return sum(commit.rows or 0 for commit in commits)


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


def read_all(writer: Any) -> LogFollower:
    follower = LogFollower("stream hits v1", writer, once=True)
    follower.start()
    follower.join()
    return follower


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
    follower = LogFollower("stream hits v1", writer, clock=lambda: now[0])
    follower.start()
    while writer.followed != [[1, 2]]:
        assert follower.is_active
    with writer.lock:
        # As it is restored and ingested again: other commits under the same numbers.
        shutil.rmtree(tmp_path / "_delta_log")
        for version in range(again):
            commit(tmp_path, version, mark=f"another {version}")
        now[0] += live.SUSPECT_EVERY
    try:
        until(lambda: not follower.is_active, timeout=10)
    finally:
        writer.stopping.set()
    assert isinstance(follower.failure, BraidError)
    assert why in str(follower.failure)
    assert "`braid kappa replay hits`" in str(follower.failure)
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
        writer.follow([])


def test_it_waits_for_the_next_commit_until_it_is_told_to_stop(tmp_path: Path) -> None:
    commit(tmp_path, 0)
    writer: Any = Writer(tmp_path, 0)
    follower = LogFollower("stream hits v1", writer)
    follower.start()
    while not writer.followed:
        assert follower.is_active
    commit(tmp_path, 1)
    while len(writer.followed) < 2:
        assert follower.is_active
    writer.stopping.set()
    follower.join()
    assert (follower.failure, follower.is_active) == (None, False)
    assert writer.followed == [[0], [1]]


def test_a_round_that_does_not_end_is_cut_off_when_its_stream_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(tmp_path, 0)
    writer: Any = Writer(tmp_path, 0)
    begun, cancelled = threading.Event(), threading.Event()

    def hangs(commits: list[Any]) -> int:
        begun.set()
        assert cancelled.wait(60)
        raise RuntimeError("cancelled")

    writer.follow = hangs
    writer.spark.sparkContext.cancelJobGroup = lambda name: cancelled.set()
    monkeypatch.setattr(live, "STOP_PATIENCE", 0.5)
    follower = LogFollower("stream hits v1", writer)
    follower.start()
    assert begun.wait(60)
    follower.stop()
    assert cancelled.is_set()
    assert not follower.is_active
