"""Tables that Spark wrote are read without it, and the numbers are those that Spark gives."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid import all_time, session, sliding, tumbling
from braid.define.windows import Window
from braid.deploy.store import changing
from braid.deploy.versions import Version, deployed
from braid.runtime.settings import Settings
from braid.states import spark as states
from braid.tables.commits import Position, TailCommit
from braid.tables.spark_tables import create
from braid.tables.view_tables import LATE, ViewTables, base_columns, tail_columns
from serving_layer.answer import reader
from serving_layer.answer.numbers import numbers
from serving_layer.answer.reader import active_version, read
from serving_layer.memory.changes import by_name, rows_of
from serving_layer.memory.follower import Follower
from tests.laws import harness

FIRST = datetime(2024, 3, 9, 22, tzinfo=UTC)
WINDOWS = {
    "1 minute": tumbling("1 minute"),
    "3 hours every hour": sliding("3 hours", every="1 hour"),
    "session": session(gap="30 minutes"),
    "all time": all_time(),
}


class Written:
    """A version of a view whose tables Spark writes: a commit for each of seven epochs."""

    def __init__(self, spark: SparkSession, settings: Settings, window: Window) -> None:
        self.view = replace(harness.view(window, harness.ONE_OF_EACH), keys=("host", "status"))
        self.tables = ViewTables(settings, self.view.name, 1)
        self.settings, self.spark = settings, spark
        with changing(settings, self.view.name) as draft:
            draft.value = deployed(draft.value, self.view, datetime(2024, 1, 1, tzinfo=UTC))
        create(spark, self.tables, self.view, None, None)
        events = [
            event | {"host": event["host"] and event["host"][:5]}
            for event in harness.random_events(400, 5, FIRST, 30 * 3600)
        ]
        epoch = F.timestamp_seconds(F.lit(int(FIRST.timestamp())) + F.col("batch") * 60).alias("epoch")
        prepared = states.prepare(self.view, harness.frame(spark, events), extra=["batch"])
        late = F.lit(0).cast("bigint").alias(LATE)
        self.states = prepared.select(epoch, late, *prepared.columns).select(*tail_columns(self.view)).cache()
        self.seen = max(event["time"] for event in events)

    @property
    def version(self) -> Version:
        return active_version(self.settings, self.view.name)

    def append(self, epoch: int) -> None:
        rows = self.states.where(F.col("epoch") == FIRST + timedelta(minutes=epoch))
        self._write(rows, "append", TailCommit("query", epoch, Position(epoch), seen=self.seen))

    def publish(self, epoch: int) -> None:
        """Every day in one commit, and then the stream collects what is covered."""
        through = FIRST + timedelta(minutes=epoch)
        covered = self.states.where(F.col("epoch") <= through).drop("epoch", LATE)
        merged = states.merge(self.view, covered).select(
            "*", F.lit(through).alias("through"), F.lit(0).cast("bigint").alias(LATE)
        )
        merged.select(*base_columns(self.view)).write.format("delta").mode("overwrite").save(self.tables.base)
        rest = self.spark.read.format("delta").load(self.tables.tail).where(F.col("epoch") > through)
        mark = TailCommit("query", epoch, Position(epoch), seen=self.seen, fold=True)
        self._write(rest.localCheckpoint(), "overwrite", mark)

    def expected(self) -> dict[Any, Any]:
        return by_row(states.present(self.view, self.states.drop("epoch", LATE)).toArrow().to_pylist())

    def _write(self, rows: DataFrame, mode: str, said: TailCommit) -> None:
        rows.write.format("delta").mode(mode).option("userMetadata", said.to_json()).save(self.tables.tail)


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home))


def by_row(rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    known_by = ("host", "status", "window_start", "window_end")
    found = {tuple(row.get(name) for name in known_by): row for row in rows}
    assert len(found) == len(rows), "a window was presented twice"
    return found


def assert_same(found: dict[Any, Any], expected: dict[Any, Any]) -> None:
    assert found.keys() == expected.keys()
    for known, row in expected.items():
        for name, value in row.items():
            got = found[known][name]
            if isinstance(value, float) and math.isfinite(value):
                assert math.isclose(got, value, rel_tol=1e-9, abs_tol=1e-9), (known, name)
            else:
                assert repr(got) == repr(value), (known, name)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_the_numbers_are_sparks_however_much_of_them_the_base_holds(
    spark: SparkSession, settings: Settings, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Written(spark, settings, window)
    for epoch in range(4):
        written.append(epoch)
    follower = Follower(settings, "law")
    for epoch in range(4, 7):
        written.append(epoch)
    expected = written.expected()
    assert any(host is None for host, *_ in expected)
    assert_same(by_row(numbers(read(settings, written.version)).to_pylist()), expected)
    written.publish(3)
    from_both = read(settings, written.version)
    assert len(from_both.tail)
    assert len(from_both.base)
    assert_same(by_row(numbers(from_both).to_pylist()), expected)

    follower.step()
    assert rows_of(follower.now).keys() == by_name(follower.now.view, numbers(from_both)).keys()
    assert follower.now.mark == from_both.mark

    # A publish and a collection right between the two reads of a reader.
    pin_base = reader.pin_base
    monkeypatch.setattr(reader, "pin_base", lambda *given: written.publish(5) or pin_base(*given))
    assert_same(by_row(numbers(read(settings, written.version)).to_pylist()), expected)
    follower.step()
    assert_same(by_row(numbers(follower.now.snapshot()).to_pylist()), expected)
