"""A stream dies at the worst points of a batch and of a fold: the next start gives the states that the log gives."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from braid.define.view import View
from braid.deploy import store as deployment
from braid.runtime.settings import Settings
from braid.tables.commits import BaseCommit, TailCommit, described
from braid.tables.delta_log import newest_version, transaction
from braid.tables.maintenance import maintain
from tests.faults.stage import Stage, assert_exact, make_stage, some, states_of
from tests.streams import NOON, Feed, recomputed, run_once, tables_of

pytestmark = pytest.mark.soak

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def prepared(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stage]:
    """Logs with some minutes to read: for streams that have never run, and for streams that have read the first."""
    stages = {}
    for kind in ("history", "commits"):
        stage = make_stage(spark, tmp_path_factory.mktemp(kind), fold_every="2 minutes")
        feed = Feed(spark, stage.log)
        feed.commit(some(20, 0), 0)
        if kind == "commits":
            run_once(spark, stage.settings, *stage.views)
        for view in stage.views:
            deployment.deploy_first(stage.settings, view, NOON)
        for minute in range(1, 5):
            feed.commit(some(20, minute), minute)
        feed.beat(5)
        # The test's JVM, which wrote so far, lives on: whoever comes next would wait for its end.
        shutil.rmtree(Path(stage.settings.home, "drivers"), ignore_errors=True)
        stages[kind] = stage
    return stages


@pytest.fixture
def stage(prepared: dict[str, Stage], tmp_path: Path) -> Stage:
    """Streams that follow the commits of their log."""
    return copied(prepared["commits"], tmp_path / "home")


@pytest.fixture(params=["history", "commits"])
def any_stage(prepared: dict[str, Stage], tmp_path: Path, request: pytest.FixtureRequest) -> Stage:
    """Streams whose query reads history, and streams that follow commits."""
    return copied(prepared[request.param], tmp_path / "home")


def copied(stage: Stage, home: Path) -> Stage:
    shutil.copytree(stage.settings.home, home)
    settings = Settings.model_validate(stage.settings.model_dump() | {"home": str(home)})
    return replace(stage, settings=settings, environment=stage.environment | {"BRAID_HOME": str(home)})


def streams_die(stage: Stage, point: str) -> None:
    command = [sys.executable, "-m", "tests.faults.die_at", point]
    environment = os.environ | stage.environment
    done = subprocess.run(
        command, env=environment, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def assert_goes_on(stage: Stage) -> None:
    """What died is done again, what has come since is read, and all of it is exact."""
    feed = Feed(stage.spark, stage.log, batch=4)
    feed.commit(some(20, 6), 6)
    feed.beat(7)
    run_once(stage.spark, stage.settings, *stage.views)
    assert_exact(stage)


def assert_served_exactly(stage: Stage) -> None:
    for view in stage.views:
        assert states_of(stage, view) == recomputed(stage.spark, view, stage.settings), view.name


def committed(stage: Stage, view: View) -> TailCommit:
    return next(described(tables_of(stage.settings, view).tail, TailCommit.from_json))[1]


def is_midway(stage: Stage, view: View) -> bool:
    """Whether the view's stream has committed some of the log, and there is more to read."""
    position = committed(stage, view).position
    newest = newest_version(stage.log.table) or 0
    return position.starting or position.version <= newest


def orphans(table: str) -> list[Path]:
    """Files that a writer left behind and no commit names."""
    named = "".join(commit.read_text() for commit in Path(table, "_delta_log").glob("*.json"))
    return [file for file in Path(table).glob("*/*.parquet") if file.name not in named]


def test_a_batch_that_was_not_committed_is_written_by_the_next_start(any_stage: Stage) -> None:
    streams_die(any_stage, "before_the_commit")
    assert any(is_midway(any_stage, view) for view in any_stage.views)
    assert_goes_on(any_stage)


def test_a_batch_that_was_committed_is_not_written_again_whoever_committed_after_it(
    any_stage: Stage, tmp_path: Path
) -> None:
    streams_die(any_stage, "after_the_commit")
    unfinished = [view for view in any_stage.views if is_midway(any_stage, view)]
    assert unfinished
    tended = copied(any_stage, tmp_path / "tended")
    assert_goes_on(any_stage)
    for view in unfinished:
        tail = tables_of(tended.settings, view).tail
        maintain(any_stage.spark, tail)
        newest = transaction(tail, newest_version(tail) or 0)
        assert newest is not None
        assert TailCommit.from_json(newest.metadata) is None
    assert_goes_on(tended)


def test_states_that_were_written_and_not_committed_are_nobodys(stage: Stage) -> None:
    streams_die(stage, "between_the_file_and_the_commit")
    assert any(orphans(tables_of(stage.settings, view).tail) for view in stage.views)
    assert any(is_midway(stage, view) for view in stage.views)
    assert_goes_on(stage)


def test_a_fold_of_the_tail_that_was_not_committed_changes_nothing(stage: Stage) -> None:
    streams_die(stage, "in_a_fold_of_the_tail")
    assert any(orphans(tables_of(stage.settings, view).tail) for view in stage.views)
    assert_served_exactly(stage)
    assert_goes_on(stage)


def test_a_fold_into_the_base_that_was_not_committed_changes_nothing(stage: Stage) -> None:
    streams_die(stage, "in_a_fold_into_the_base")
    assert any(orphans(tables_of(stage.settings, view).base) for view in stage.views)
    assert_served_exactly(stage)
    assert_goes_on(stage)


def test_rows_that_the_base_covers_and_the_tail_still_holds_count_once(stage: Stage) -> None:
    streams_die(stage, "between_base_and_tail")
    kappa = next(view for view in stage.views if view.mode == "kappa")
    tables = tables_of(stage.settings, kappa)
    version, advanced = next(described(tables.base, BaseCommit.from_json))
    last = committed(stage, kappa)
    assert advanced.through == last.complete
    assert last.collected < version
    assert_served_exactly(stage)
    assert_goes_on(stage)
