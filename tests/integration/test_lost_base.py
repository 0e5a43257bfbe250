"""A base that is lost, or older than its tail, is refused by all who read and write: nothing else has its rows."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from batch_layer.plan import plan
from batch_layer.run import Asked
from batch_layer.run import run as batch
from braid import View
from braid.comparable import complete_upto
from braid.errors import BraidError
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.commits import newest_commit
from braid.tables.delta_log import newest_version
from serving_layer.answer.reader import active_version, read
from serving_layer.memory.follower import Follower
from speed_layer.stream.replay import replay
from tests.streams import Feed, recomputed, requests, run_once, served, some, tables_of, traffic

LOST = r"the base of view 'traffic' at .* lacks what the tail has left to it.*`braid kappa replay traffic`"


@dataclass(frozen=True)
class Full:
    """A home in which a view has history, days that were folded or published, and rows beyond them."""

    view: View
    feed: Feed
    # The view's base as it was before most of that.
    backup: Path


@pytest.fixture
def full(spark: Any, home: Path, at_home: Settings, made_once: Callable[..., Path]) -> Callable[[Any], Full]:
    """Puts such a home in the place of this test's, for a view of a mode."""

    def put(mode: Any) -> Full:
        view = replace(traffic, mode=mode)
        made = made_once(f"full-{mode}", lambda folder: fill(spark, at_home, view, folder))
        shutil.copytree(made / "home", home)
        last = newest_commit(Log(requests, at_home).table)
        assert last is not None
        return Full(view, Feed(spark, Log(requests, at_home), last.batch), made / "backup")

    return put


def fill(spark: Any, at_home: Settings, view: View, folder: Path) -> None:
    settings = at_home.model_copy(update={"home": str(folder / "home")})
    feed, tables = Feed(spark, Log(requests, settings)), tables_of(settings, view)
    feed.commit(some(50, 0), 0)
    feed.beat(1)
    run_once(spark, settings, view)
    shutil.copytree(tables.base, folder / "backup")
    for minute in range(2, 8):
        feed.commit(some(10, minute), minute)
    feed.beat(8)
    run_once(spark, settings, view)
    if view.mode == "lambda":
        batch(lambda: spark, settings, [view], Asked())
        run_once(spark, settings, view)
    feed.commit(some(10, 9), 9)
    run_once(spark, settings, view)
    assert served(spark, view, tables) == recomputed(spark, view, settings)


def forget_tables(spark: Any) -> None:
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


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
    spark: Any, at_home: Settings, full: Callable[[Any], Full], mode: Any
) -> None:
    view = full(mode).view
    shutil.rmtree(tables_of(at_home, view).base)
    forget_tables(spark)
    assert_refused(spark, at_home, view)
    made = replay(spark, at_home, view)
    assert made.number == 2
    assert served(spark, view, tables_of(at_home, view, 2)) == recomputed(spark, view, at_home)


def test_a_base_that_is_older_than_its_tail_is_refused(
    spark: Any, at_home: Settings, full: Callable[[Any], Full]
) -> None:
    there = full("kappa")
    tables = tables_of(at_home, there.view)
    shutil.rmtree(tables.base)
    shutil.copytree(there.backup, tables.base)
    forget_tables(spark)
    assert_refused(spark, at_home, there.view)


def test_a_base_of_another_view_is_refused(
    spark: Any, at_home: Settings, full: Callable[[Any], Full]
) -> None:
    there = full("kappa")
    other = replace(there.view, name="other")
    tables, others = tables_of(at_home, there.view), tables_of(at_home, other)
    run_once(spark, at_home, other)
    minute = 10
    # Not older by its number, so that it is known by whose it is alone.
    while newest_version(others.base) <= newest_version(tables.base):
        there.feed.commit(some(10, minute), minute)
        there.feed.beat(minute + 1)
        run_once(spark, at_home, other)
        minute += 4
        assert minute < 60, "the other base does not grow"
    shutil.rmtree(tables.base)
    shutil.copytree(others.base, tables.base)
    forget_tables(spark)
    assert_refused(spark, at_home, there.view)
