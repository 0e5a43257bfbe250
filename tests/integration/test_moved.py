"""A folder of files or a home that was moved: no file is read a second time, and places stay what they were."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from braid import Source
from braid.errors import BraidError
from braid.log.table import Log
from braid.runtime.settings import Settings
from speed_layer.ingest import quarantine
from speed_layer.ledger.balance import take_stock
from speed_layer.recovery import plan_source
from tests.ingesting import recover, rows, run

# Spaces and signs that a URI writes differently.
BEFORE, AFTER = "a drop", "another drop, 2 é"


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    folder = tmp_path / BEFORE
    folder.mkdir()
    return folder


@pytest.fixture
def log(home: Path, drop: Path) -> Log:
    return Log(source_of(drop), Settings(home=str(home), spark_master="local[2]"))


def source_of(folder: Path) -> Source:
    """Without ids: what is read twice is counted twice at once, and not only when ids are forgotten."""
    return Source(
        name="people", files=f"{folder}/*.jsonl", schema="n bigint, time timestamp", event_time="time"
    )


def put(folder: Path, name: str, *numbers: int) -> None:
    lines = (json.dumps({"n": n, "time": "2024-01-01T10:00:00Z"}) for n in numbers)
    (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def numbers(spark: Any, log: Log) -> list[int]:
    return sorted(row.n for row in rows(spark, log).where("_error is null").select("n").collect())


def moved(log: Log, drop: Path) -> tuple[Log, Path]:
    there = drop.with_name(AFTER)
    drop.rename(there)
    return replace(log, source=source_of(there)), there


def test_a_folder_that_was_moved_is_refused_and_gone_on_with_when_a_person_says_so(
    spark: Any, log: Log, drop: Path
) -> None:
    put(drop, "a", 1, 2)
    run(spark, log)
    log, there = moved(log, drop)
    put(there, "b", 3)
    for _ in range(2):
        with pytest.raises(
            BraidError, match=rf"were read in {drop}, and its folder is {there} now.*`braid recover people`"
        ):
            run(spark, log)
    assert numbers(spark, log) == [1, 2]
    planned = plan_source(spark, log)
    assert "is not read again; all others are read" in planned.says
    recover(spark, log)
    run(spark, log)
    assert numbers(spark, log) == [1, 2, 3]
    put(there, "c", 4)
    run(spark, log)
    assert numbers(spark, log) == [1, 2, 3, 4]
    books = take_stock(log)
    assert books.balanced
    assert sum(account.consumed for account in books.accounts) == 4
    # A place is a record's own for ever: a checkpoint that is lost afterwards is begun anew by them.
    shutil.rmtree(log.checkpoint)
    recover(spark, log)
    put(there, "d", 5)
    run(spark, log)
    assert numbers(spark, log) == [1, 2, 3, 4, 5]


def test_a_folder_whose_checkpoint_is_lost_with_the_move_is_not_read_again(
    spark: Any, log: Log, drop: Path
) -> None:
    put(drop, "a", 1, 2)
    run(spark, log)
    log, there = moved(log, drop)
    shutil.rmtree(log.checkpoint)
    put(there, "b", 3)
    for _ in range(2):
        with pytest.raises(BraidError, match=r"`braid recover people`"):
            run(spark, log)
        recover(spark, log)
    run(spark, log)
    assert numbers(spark, log) == [1, 2, 3]


def test_a_move_that_meets_a_batch_that_was_planned_and_not_read_goes_on_with_it(
    spark: Any, log: Log, drop: Path
) -> None:
    """As a kill between the plan and the commit leaves it: the batch is read in the new folder."""
    put(drop, "a", 1)
    run(spark, log)
    put(drop, "b", 2)
    run(spark, log)
    checkpoint = Path(log.checkpoint)
    last = max(int(one.name) for one in (checkpoint / "commits").iterdir() if one.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()
    log, there = moved(log, drop)
    recover(spark, log)
    put(there, "c", 3)
    run(spark, log)
    assert numbers(spark, log) == [1, 2, 3]


def test_a_home_of_old_that_does_not_say_where_its_folder_was_is_asked_for_what_it_has_read(
    spark: Any, log: Log, drop: Path
) -> None:
    put(drop, "a", 1)
    run(spark, log)
    record = Path(log.table, "_braid_folder.json")
    record.unlink()
    run(spark, log)
    assert record.exists()
    record.unlink()
    log, there = moved(log, drop)
    with pytest.raises(BraidError, match=r"`braid recover people`"):
        run(spark, log)
    recover(spark, log)
    put(there, "b", 2)
    run(spark, log)
    assert numbers(spark, log) == [1, 2]


def test_a_home_that_was_moved_does_not_read_its_inbox_again(
    spark: Any, log: Log, drop: Path, tmp_path: Path
) -> None:
    put(drop, "a", 1)
    (drop / "bad.jsonl").write_text('{"n": \n')
    run(spark, log)
    assert quarantine.requeue(spark, log) == 1
    run(spark, log)
    before = rows(spark, log).count()
    assert before == 3, "one is accepted, one is rejected, and rejected again from the inbox"
    there = tmp_path / "another home"
    shutil.move(log.settings.home, there)
    settings = Settings.model_validate(log.settings.model_dump() | {"home": str(there)})
    log = replace(log, settings=settings)
    put(drop, "b", 2)
    run(spark, log)
    assert numbers(spark, log) == [1, 2]
    assert rows(spark, log).count() == before + 1
    assert quarantine.requeue(spark, log) == 1, "what was rejected again can be requeued again"
    run(spark, log)
    assert rows(spark, log).count() == before + 2
    assert take_stock(log).balanced
