"""A base is written only as it was read: Delta skips or refuses what was decided from an older version."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from braid.errors import BraidError
from braid.tables.commits import BaseCommit, described
from braid.tables.conditional import (
    ATTEMPTS,
    WRITERS,
    Overtaken,
    again_while_overtaken,
    can_commit_here,
    commit,
    commit_here,
    see,
)
from braid.tables.delta_log import newest_version
from tests.waiting import until

SAID = BaseCommit(datetime(2026, 3, 1, tzinfo=UTC), "batch")


@pytest.fixture
def table(spark: Any, home: Path) -> str:
    """A base of old: its commits count in no transaction id."""
    location = str(home / "base")
    spark.sql("select date'2026-03-01' as day, 1L as n").write.format("delta").partitionBy("day").save(
        location
    )
    return location


def rows(spark: Any, number: int, day: str = "2026-03-01") -> Any:
    one = spark.sql(f"select date'{day}' as day, {number}L as n")
    return one.write.format("delta").mode("overwrite").option("replaceWhere", f"day = date'{day}'")


def numbers(spark: Any, table: str) -> set[int]:
    return {row.n for row in spark.read.format("delta").load(table).collect()}


def test_a_table_that_nobody_has_written_since_is_written_and_its_version_is_known(
    spark: Any, table: str
) -> None:
    for number in (2, 3):
        assert commit(spark, rows(spark, number), see(table), SAID) == number - 1
        assert numbers(spark, table) == {number}


def test_what_was_decided_before_another_commit_is_not_written(spark: Any, table: str) -> None:
    seen = see(table)
    commit(spark, rows(spark, 2), see(table), SAID)
    with pytest.raises(Overtaken):
        commit(spark, rows(spark, 3), seen, SAID)
    with pytest.raises(Overtaken):
        commit(spark, rows(spark, 3, "2026-03-02"), seen, SAID)
    assert numbers(spark, table) == {2}
    assert newest_version(table) == 1


def test_a_commit_without_rows_of_ours_in_between_hides_no_writer(spark: Any, table: str) -> None:
    """A number taken from the table's version would: a VACUUM moves it, and an older writer may still commit."""
    older = see(table)
    spark.sql(f"alter table delta.`{table}` set tblproperties ('a' = 'b')")
    newer = see(table)
    commit(spark, rows(spark, 2), older, SAID)
    with pytest.raises(Overtaken):
        commit(spark, rows(spark, 3), newer, SAID)
    assert numbers(spark, table) == {2}


def here(number: int, day: str = "2026-03-01") -> tuple[pa.Table, str]:
    """The same rows in this process."""
    held = pa.table(
        {"day": pa.array([date.fromisoformat(day)], pa.date32()), "n": pa.array([number], pa.int64())}
    )
    return held, f"day = date'{day}'"


def test_rows_of_this_process_are_committed_as_those_of_spark_are_and_neither_overtakes_the_other(
    spark: Any, table: str
) -> None:
    seen = see(table)
    assert commit_here(*here(2), see(table), SAID) == 1
    assert numbers(spark, table) == {2}
    (_, said), *_ = described(table, BaseCommit.from_json)
    assert (said.through, said.by) == (SAID.through, SAID.by)
    for late in (
        lambda: commit_here(*here(3), seen, SAID),
        lambda: commit(spark, rows(spark, 3), seen, SAID),
    ):
        with pytest.raises(Overtaken):
            late()
    seen = see(table)
    assert commit(spark, rows(spark, 4, "2026-03-02"), see(table), SAID) == 2
    with pytest.raises(Overtaken):
        commit_here(*here(5, "2026-03-03"), seen, SAID)
    assert commit_here(*here(6), see(table), SAID) == 3
    assert numbers(spark, table) == {4, 6}
    assert see(table).writes == 3


def test_of_many_in_this_process_that_read_the_same_version_one_commits(spark: Any, table: str) -> None:
    seen = [see(table) for _ in range(8)]

    def attempt(one: Any) -> int | None:
        try:
            return commit_here(*here(7), one, SAID)
        except Overtaken:
            return None

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(attempt, seen))
    assert sorted(filter(None, made)) == [1]
    assert numbers(spark, table) == {7}


def test_a_place_with_an_odd_name_is_written_here_or_known_to_be_one_for_spark(
    spark: Any, table: str, home: Path
) -> None:
    for name in ("with a space", "h\u00e4user #1", "a,b;c=d&e'f", "[old]", "a|b^c"):
        place = home / name / "base"
        shutil.copytree(table, place)
        if can_commit_here(str(place)):
            commit_here(*here(9), see(str(place)), SAID)
            assert [row["n"] for row in see(str(place)).table.to_pyarrow_table().to_pylist()] == [9]
    assert not can_commit_here("s3a://bucket/base")


def test_a_commit_that_is_made_during_another_refuses_it(spark: Any, table: str) -> None:
    """The rows of the second are computed within its own transaction: the first commits just then."""
    seen, folder = see(table), Path(table).parent
    begun, gate = folder / "begun", folder / "gate"

    def waits(parts: Any) -> Any:
        begun.touch()
        while not gate.exists():
            time.sleep(0.01)
        yield from parts

    frame = spark.sql("select date'2026-03-02' as day, 3L as n")
    slow = frame.mapInPandas(waits, frame.schema).write.format("delta").mode("overwrite")
    slow = slow.option("replaceWhere", "day = date'2026-03-02'")
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(commit, spark, slow, seen, SAID)
        until(begun.exists, 60)
        commit(spark, rows(spark, 2), see(table), SAID)
        gate.touch()
        with pytest.raises(Overtaken) as refused:
            second.result()
    assert "DELTA_CONCURRENT_TRANSACTION" in str(refused.value.__cause__)
    assert numbers(spark, table) == {2}


def test_an_attempt_that_is_overtaken_reads_and_decides_again_and_not_for_ever(
    spark: Any, table: str
) -> None:
    looked: list[int] = []

    def attempt(seen: Any) -> int:
        looked.append(seen.version)
        if len(looked) == 1:
            commit(spark, rows(spark, 2), see(table), SAID)
        return commit(spark, rows(spark, 3), seen, SAID)

    assert again_while_overtaken(table, attempt) == 2
    assert looked == [0, 1]
    assert numbers(spark, table) == {3}

    def never(seen: Any) -> int:
        looked.append(seen.version)
        raise Overtaken

    with pytest.raises(BraidError, match="nothing was written"):
        again_while_overtaken(table, never)
    assert len(looked) == 2 + ATTEMPTS


def test_what_others_have_counted_survives_a_checkpoint(spark: Any, table: str) -> None:
    spark.sql(f"alter table delta.`{table}` set tblproperties ('delta.checkpointInterval' = '2')")
    for number in range(2, 6):
        commit(spark, rows(spark, number), see(table), SAID)
    for file in Path(table, "_delta_log").glob("0*[0-3].json"):
        file.unlink()
    assert see(table).table.transaction_version(WRITERS) == 4
    commit(spark, rows(spark, 9), see(table), SAID)
    assert numbers(spark, table) == {9}
