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

from braid.settings import Settings
from infra import broker as embedded
from tests.conftest import Answer
from tests.faults.stage import Stage, make_stage
from tests.streams import served, tables_of

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "rebuild-from-the-log.md"
DISORDER = "--late 0.2 --duplicates 0.05 --malformed 0.03 --out-of-order 0.1"


@pytest.fixture
def stage(
    spark: Any,
    broker: embedded.Broker,
    tmp_path: Path,
    braid: Callable[..., Answer],
    monkeypatch: pytest.MonkeyPatch,
) -> Stage:
    """A home in which everything has been done once."""
    made = make_stage(spark, tmp_path, kafka_bootstrap=broker.bootstrap)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    stage = replace(made, settings=Settings.model_validate(made.settings.model_dump()))
    for command in (
        f"produce --topic {stage.source.kafka_topic} --events 2000 {DISORDER}",
        "stream --ingest --once",
        "batch run",
    ):
        answer = braid(*command.split())
        assert answer.code == 0, answer.err
    return stage


def commands_of(section: str) -> list[str]:
    found = re.search(rf"test_rebuild\.py: {section} -->\n```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found, section
    return found[1].splitlines()


def run(line: str, braid: Callable[..., Answer]) -> None:
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


@pytest.mark.parametrize("section", ["all", "tables"])
def test_bases_tails_and_checkpoints_are_rebuilt_from_the_log_alone(
    stage: Stage, braid: Callable[..., Answer], section: str
) -> None:
    before, log = everything(stage), sorted(Path(stage.log.table).rglob("*"))
    removing, *rebuilding = commands_of(section)
    run(removing, braid)
    assert not list(Path(stage.settings.home).glob("views/*/v1/tail"))
    for line in rebuilding:
        run(line, braid)
    after = everything(stage)
    assert all(sum(rows.values()) for rows in before.values())
    assert after == before
    assert sorted(Path(stage.log.table).rglob("*")) == log, "the log is only read"


def test_ingest_goes_on_where_the_log_ends(stage: Stage, braid: Callable[..., Answer]) -> None:
    known = stage.accepted_ids()
    for line in commands_of("ingest"):
        run(line, braid)
    assert stage.accepted_ids() == known
