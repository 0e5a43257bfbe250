"""Everything but the log is lost: the commands of the how-to give it back, state for state."""

import glob
import os
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batch_layer.plan import lambda_views
from batch_layer.run import run as run_batch
from batch_layer.tasks import Asked
from braid.infra import broker as embedded
from braid.runtime.settings import Settings
from speed_layer.jobs.engine import stream
from tests.conftest import Answer
from tests.faults.stage import Stage, make_stage
from tests.streams import served, tables_of

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "rebuild-from-the-log.md"
DISORDER = "--late 0.2 --duplicates 0.05 --malformed 0.03 --out-of-order 0.1"


@pytest.fixture(scope="module")
def done(spark: Any, broker: embedded.Broker, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A home in which everything has been done once."""
    stage = make_stage(spark, tmp_path_factory.mktemp("done"), kafka_bootstrap=broker.bootstrap)
    options = f"--topic {stage.source.kafka_topic} --events 2000 {DISORDER}"
    assert stage.run("produce", *options.split()).ended() == 0
    stream(spark, stage.views, stage.settings, sources=[stage.source], only=True, once=True)
    run_batch(lambda: spark, stage.settings, lambda_views(stage.views), Asked())
    return stage


@pytest.fixture
def stage(done: Stage, home: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A copy that can be destroyed, as commands in this process see it."""
    shutil.copytree(done.settings.home, home)
    settings = Settings.model_validate(done.settings.model_dump() | {"home": str(home)})
    for name, value in (done.environment | {"BRAID_HOME": str(home)}).items():
        monkeypatch.setenv(name, value)
    return replace(done, settings=settings)


def commands_of(section: str) -> list[str]:
    found = re.search(rf"test_rebuild\.py: {section} -->\n```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found, section
    return found[1].splitlines()


def do(line: str, braid: Callable[..., Answer]) -> None:
    """A line of the page: a `braid` command in this process, or the removal of folders that must have been there."""
    words = shlex.split(os.path.expandvars(line))
    if words[0] == "braid":
        answer = braid(*words[1:])
        assert answer.code == 0, f"{line}: {answer.err}{answer.out}"
        return
    assert words[:2] == ["rm", "-rf"], line
    folders = [folder for pattern in words[2:] for folder in glob.glob(pattern)]
    assert folders, line
    for folder in folders:
        shutil.rmtree(folder)


def everything(stage: Stage) -> dict[str, Counter[Any]]:
    found = {}
    for view in stage.views:
        tables = tables_of(stage.settings, view)
        found[view.name] = served(stage.spark, view, tables)
        columns = ("day", "pane", "first", "last", *view.keys, "count", "sum_bytes")
        base = stage.spark.read.format("delta").load(tables.base)
        rows = base.select(*(name for name in columns if name in base.columns)).collect()
        found[f"base of {view.name}"] = Counter(tuple(row) for row in rows)
    return found


@pytest.mark.parametrize("section", ["all", pytest.param("tables", marks=pytest.mark.soak)])
def test_bases_tails_and_checkpoints_are_rebuilt_from_the_log_alone(
    stage: Stage, braid: Callable[..., Answer], section: str
) -> None:
    before, log = everything(stage), sorted(Path(stage.log.table).rglob("*"))
    removing, *rebuilding = commands_of(section)
    do(removing, braid)
    assert not list(Path(stage.settings.home).glob("views/*/v1/tail"))
    for line in rebuilding:
        do(line, braid)
    after = everything(stage)
    assert all(sum(rows.values()) for rows in before.values())
    assert after == before
    assert sorted(Path(stage.log.table).rglob("*")) == log, "the log is only read"


def test_ingest_goes_on_where_the_log_ends(stage: Stage, braid: Callable[..., Answer]) -> None:
    known = stage.accepted_ids()
    for line in commands_of("ingest"):
        do(line, braid)
    assert stage.accepted_ids() == known
