"""A stream dies at the worst points of a batch and of a fold: the next start gives the states that the log gives."""

import os
import random
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from braid.commits import BaseCommit, TailCommit, described
from braid.maintenance import maintain
from braid.storage import Storage
from braid.transactions import newest_version, transactions
from braid.view import View
from speed_layer.checkpoint import Checkpoint
from tests.faults.die_at import POINTS
from tests.faults.stage import MakeStage, Stage, assert_exact, states_of
from tests.streams import MINUTE, NOON, Feed, recomputed, run_once, tables_of

REPOSITORY = Path(__file__).resolve().parents[2]


def some(number: int, minute: int) -> list[dict[str, Any]]:
    """Events around a minute after noon, of several days."""
    chance = random.Random(minute)
    return [
        {
            "id": f"{minute}-{n}",
            "time": NOON
            + minute * MINUTE
            - chance.choice([1, 60, 3600]) * timedelta(seconds=chance.randrange(60)),
            "host": f"h{chance.randrange(6)}",
            "url": chance.choice(["/", "/a", None]),
            "status": chance.choice([200, 404]),
            "bytes": chance.randrange(1000),
        }
        for n in range(number)
    ]


@pytest.fixture
def stage(make_stage: MakeStage) -> Stage:
    return make_stage(fold_every="2 minutes")


@pytest.fixture
def feed(stage: Stage) -> Feed:
    """A log with some minutes that the stream, which has run before, is still to read."""
    feed = Feed(stage.spark, stage.log)
    feed.commit(some(20, 0), 0)
    run_once(stage.spark, stage.settings, *stage.views)
    for minute in range(1, 5):
        feed.commit(some(20, minute), minute)
    feed.beat(5)
    return feed


def stream_dies(stage: Stage, point: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.die_at", point],
        env=os.environ | stage.environment, cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr


def goes_on(stage: Stage, feed: Feed) -> None:
    """What died is repeated, what has come since is read, and all of it is exact."""
    feed.commit(some(20, 6), 6)
    feed.beat(7)
    run_once(stage.spark, stage.settings, *stage.views)
    assert_exact(stage)


def planned(stage: Stage, view: View) -> int | None:
    return Checkpoint(Storage(stage.spark), tables_of(stage.settings, view).checkpoint, "").last_batch()


def finished(stage: Stage, view: View) -> int:
    names = Path(tables_of(stage.settings, view).checkpoint, "commits").iterdir()
    return max(int(file.name) for file in names if file.name.isdigit())


def committed(stage: Stage, view: View) -> TailCommit:
    return next(described(stage.spark, tables_of(stage.settings, view).tail, TailCommit.from_json))[1]


def orphans(stage: Stage, table: str) -> set[str]:
    """Files that a writer left behind and no commit ever named."""
    commits = Path(table, "_delta_log").glob("*.json")
    named = "".join(file.read_text() for file in commits)
    return {file.name for file in Path(table).glob("*/*.parquet") if file.name not in named}


def test_before_the_commit(stage: Stage, feed: Feed) -> None:
    stream_dies(stage, "before_the_commit")
    assert any(planned(stage, view) == committed(stage, view).batch + 1 for view in stage.views)
    goes_on(stage, feed)


@pytest.mark.parametrize("then", ["nothing", "OPTIMIZE and VACUUM"])
def test_after_the_commit_and_before_the_checkpoint(stage: Stage, feed: Feed, then: str) -> None:
    stream_dies(stage, "after_the_commit")
    between = [view for view in stage.views if committed(stage, view).batch == finished(stage, view) + 1]
    assert between
    if then != "nothing":
        for view in between:
            tail = tables_of(stage.settings, view).tail
            maintain(stage.spark, tail)
    goes_on(stage, feed)
