"""A base that is lost, or older than its tail, is refused by all who read and write: nothing else has its rows."""

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from batch_layer.plan import plan
from batch_layer.run import Asked
from batch_layer.run import run as batch
from braid import View
from braid.errors import BraidError
from braid.log.table import Log
from braid.parity import complete_upto
from braid.runtime.settings import Settings
from braid.tables.delta_log import newest_version
from serving_layer.answer.reader import active_version, read
from serving_layer.memory.follower import Follower
from speed_layer.stream.replay import replay
from tests.streams import Feed, recomputed, requests, run_once, served, some, tables_of, traffic

LOST = r"the base of view 'traffic' at .* lacks what the tail has left to it.*`braid kappa replay traffic`"


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(
        home=str(home),
        spark_master="local[2]",
        kafka_bootstrap="127.0.0.1:1",
        fold_every=timedelta(minutes=2),
    )


@pytest.fixture
def feed(spark: Any, settings: Settings) -> Feed:
    return Feed(spark, Log(requests, settings))


def forget_tables(spark: Any) -> None:
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def filled(spark: Any, settings: Settings, feed: Feed, view: View) -> None:
    """History, days that were folded or published and have left the tail, and rows beyond them."""
    feed.commit(some(50, 0), 0)
    feed.beat(1)
    run_once(spark, settings, view)
    for minute in range(2, 8):
        feed.commit(some(10, minute), minute)
    feed.beat(8)
    run_once(spark, settings, view)
    if view.mode == "lambda":
        batch(lambda: spark, settings, [view], Asked())
        run_once(spark, settings, view)
    feed.commit(some(10, 9), 9)
    run_once(spark, settings, view)
    assert served(spark, view, tables_of(settings, view)) == recomputed(spark, view, settings)


def assert_refused(spark: Any, settings: Settings, view: View) -> None:
    """By every reader and every writer; and nothing is made in the place of what is lost."""
    tables, version = tables_of(settings, view), active_version(settings, view.name)
    before = newest_version(tables.base)
    with pytest.raises(BraidError, match=LOST):
        read(settings, version)
    with pytest.raises(BraidError, match=LOST):
        Follower(settings, view.name)
    with pytest.raises(BraidError, match=LOST):
        served(spark, view, tables)
    for _ in range(2):
        with pytest.raises(BraidError, match=LOST):
            run_once(spark, settings, view)
    if view.mode == "lambda":
        days = plan(settings, [view])[0].days
        assert {day.state for day in days} == {"base lost"}
        assert all("`braid kappa replay traffic`" in day.reason for day in days)
        with pytest.raises(BraidError, match=LOST):
            batch(lambda: spark, settings, [view], Asked(force=True))
    assert complete_upto(settings, version) is None
    assert newest_version(tables.base) == before


@pytest.mark.parametrize("mode", ["lambda", "kappa"])
def test_a_base_that_is_gone_beside_its_tail_is_refused_and_the_view_is_built_anew(
    spark: Any, settings: Settings, feed: Feed, mode: Any
) -> None:
    view = replace(traffic, mode=mode)
    filled(spark, settings, feed, view)
    shutil.rmtree(tables_of(settings, view).base)
    forget_tables(spark)
    assert_refused(spark, settings, view)
    made = replay(spark, settings, view)
    assert made.number == 2
    assert served(spark, view, tables_of(settings, view, 2)) == recomputed(spark, view, settings)


def test_a_base_that_is_older_than_its_tail_is_refused(
    spark: Any, settings: Settings, feed: Feed, tmp_path: Path
) -> None:
    view = replace(traffic, mode="kappa")
    feed.commit(some(50, 0), 0)
    feed.beat(1)
    run_once(spark, settings, view)
    tables = tables_of(settings, view)
    shutil.copytree(tables.base, tmp_path / "backup")
    filled(spark, settings, feed, view)
    shutil.rmtree(tables.base)
    shutil.copytree(tmp_path / "backup", tables.base)
    forget_tables(spark)
    assert_refused(spark, settings, view)


def test_a_base_of_another_view_is_refused(spark: Any, settings: Settings, feed: Feed) -> None:
    view = replace(traffic, mode="kappa")
    filled(spark, settings, feed, view)
    other = replace(view, name="other")
    run_once(spark, settings, other)
    for minute in range(10, 30, 4):
        feed.commit(some(10, minute), minute)
        feed.beat(minute + 1)
        run_once(spark, settings, other)
    tables, others = tables_of(settings, view), tables_of(settings, other)
    shutil.rmtree(tables.base)
    shutil.copytree(others.base, tables.base)
    forget_tables(spark)
    assert_refused(spark, settings, view)
