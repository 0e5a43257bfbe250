"""A stream counts every event of its log once, however the log is cut into batches, epochs and days."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from braid import (
    Lookup,
    View,
    count,
)
from braid.deploy import store as deployment
from braid.deploy import versions
from braid.errors import BraidError
from braid.log.table import Log
from braid.merge.spark import served_states
from braid.runtime.settings import Settings
from braid.runtime.status import read_all
from braid.tables.commits import TailCommit, described, newest_tail_commit
from braid.tables.maintenance import maintain
from braid.tables.spark_tables import pinned
from speed_layer.jobs.engine import stream
from speed_layer.stream import job as streams
from speed_layer.stream.fold import Folding
from tests.streams import (
    MINUTE,
    NOON,
    Feed,
    recomputed,
    requests,
    run_once,
    served,
    some,
    tables_of,
    traffic,
    visits,
)
from tests.waiting import until


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home), spark_master="local[2]", kafka_bootstrap="127.0.0.1:1")


@pytest.fixture
def feed(spark: Any, settings: Settings) -> Feed:
    return Feed(spark, Log(requests, settings))


@pytest.fixture
def begun(spark: Any, settings: Settings, feed: Feed, made_once: Callable[..., Path]) -> Feed:
    """The feed of a log that is empty so far, with which the stream of `traffic` has begun."""

    def make(folder: Path) -> None:
        here = settings.model_copy(update={"home": str(folder)})
        Feed(spark, Log(requests, here)).commit([], 0)
        run_once(spark, here, traffic)

    shutil.copytree(made_once("begun-traffic", make), settings.home)
    feed.batch = 0
    return feed


def epochs(spark: Any, settings: Settings, view: View) -> dict[int, int]:
    """Minute after noon -> files of the tail."""
    paths = (
        pinned(spark, tables_of(settings, view).tail)
        .selectExpr("epoch", "_metadata.file_path as path")
        .distinct()
    )
    found = [row.epoch.astimezone(NOON.tzinfo) for row in paths.collect()]
    return {int((e - NOON) / MINUTE): found.count(e) for e in found}


def test_the_tail_holds_what_a_recompute_of_the_log_gives_at_every_cut(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    feed.commit(some(5, 0), 0)
    run_once(spark, settings, traffic, visits)
    for minute in range(1, 5):
        feed.commit(some(30, minute), minute)
        feed.commit(some(30, minute, seed=1), minute)
    feed.beat(5)
    run_once(spark, settings, traffic, visits)
    for view, cut in ((traffic, NOON + 2 * MINUTE), (traffic, None), (visits, NOON + 3 * MINUTE)):
        expected = recomputed(spark, view, settings, cut)
        assert served(spark, view, tables_of(settings, view), cut) == expected, (view.name, cut)
        assert expected


def test_history_that_was_there_before_is_stored_under_one_cut_and_folded_into_the_base(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    for minute in range(4):
        feed.commit(some(20, minute), minute)
    # An optimised log gives its epochs in any order.
    maintain(spark, feed.log.table)
    feed.commit(some(20, 4), 4)
    run_once(spark, settings, traffic)
    tables = tables_of(settings, traffic)
    through = {
        row.through.astimezone(NOON.tzinfo) for row in pinned(spark, tables.base).select("through").collect()
    }
    assert through == {NOON + 3 * MINUTE}
    assert set(epochs(spark, settings, traffic)) == {4}
    assert served(spark, traffic, tables) == recomputed(spark, traffic, settings)


@pytest.mark.parametrize("most_bytes", ["256m", "1b"], ids=["in one batch", "in many batches"])
def test_history_has_one_row_per_pane_and_keys_in_the_base_however_it_was_cut_into_epochs(
    spark: Any, settings: Settings, feed: Feed, monkeypatch: pytest.MonkeyPatch, most_bytes: str
) -> None:
    monkeypatch.setattr(streams, "MOST_BYTES", most_bytes)
    for minute in range(3):
        feed.commit(some(40, minute, spread=90), minute)
    feed.beat(3)
    run_once(spark, settings, traffic)
    tables = tables_of(settings, traffic)
    base = pinned(spark, tables.base).select("day", "pane", "url")
    assert base.count() == base.distinct().count() > 0
    assert served(spark, traffic, tables) == recomputed(spark, traffic, settings)


def test_an_optimize_of_the_tail_is_not_taken_for_a_fold_of_it(
    spark: Any, settings: Settings, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_BYTES", "1b")
    for minute in range(3):
        feed.commit(some(40, minute, spread=90), minute)
    feed.beat(3)
    tidy = Folding.tidy
    tables = tables_of(settings, traffic)

    def optimized_first(folding: Folding) -> None:
        maintain(spark, tables.tail)
        tidy(folding)

    monkeypatch.setattr(Folding, "tidy", optimized_first)
    run_once(spark, settings, traffic)
    base = pinned(spark, tables.base).select("day", "pane", "url")
    assert base.count() == base.distinct().count() > 0
    assert served(spark, traffic, tables) == recomputed(spark, traffic, settings)


def test_a_cut_is_complete_only_when_a_later_epoch_was_committed(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    feed.commit(some(5, 0), 0)
    feed.commit(some(5, 1), 1)
    run_once(spark, settings, traffic)
    last = newest_tail_commit(tables_of(settings, traffic).tail)
    assert last is not None
    assert last.complete == NOON
    feed.beat(2)
    run_once(spark, settings, traffic)
    last = newest_tail_commit(tables_of(settings, traffic).tail)
    assert last is not None
    assert last.complete == NOON + MINUTE


def test_a_closed_epoch_becomes_one_file_and_an_open_one_stays_as_it_is(
    spark: Any, settings: Settings, begun: Feed
) -> None:
    for seed, minute in enumerate((1, 1, 2, 2)):
        begun.commit(some(10, minute, seed), minute)
        run_once(spark, settings, traffic)
    assert epochs(spark, settings, traffic) == {1: 1, 2: 2}
    assert served(spark, traffic, tables_of(settings, traffic)) == recomputed(spark, traffic, settings)


def test_a_fold_says_the_last_batch_again_and_changes_no_data(
    spark: Any, settings: Settings, begun: Feed
) -> None:
    for minute in (1, 1, 2):
        begun.commit(some(10, minute), minute)
        run_once(spark, settings, traffic)
    tables = tables_of(settings, traffic)
    (version, fold), (_, before), *_ = described(tables.tail, TailCommit.from_json)
    assert fold.fold
    assert replace(fold, fold=False, seen=None) == replace(before, seen=None)
    import json

    actions = map(json.loads, Path(tables.tail, f"_delta_log/{version:020d}.json").read_text().splitlines())
    assert {a[kind]["dataChange"] for a in actions for kind in ("add", "remove") if kind in a} == {False}


def test_what_a_published_day_covers_is_collected_and_nothing_else(
    spark: Any, settings: Settings, begun: Feed
) -> None:
    for minute in (1, 2, 3):
        begun.commit(some(30, minute), minute)
    run_once(spark, settings, traffic)
    tables = tables_of(settings, traffic)
    publish(spark, settings, traffic, days=1, cut=NOON + 2 * MINUTE)
    before = served(spark, traffic, tables)
    begun.beat(4)
    run_once(spark, settings, traffic)
    assert served(spark, traffic, tables) == before == recomputed(spark, traffic, settings)
    days = pinned(spark, tables.base).select("day").distinct().collect()
    covered = pinned(spark, tables.tail).where(f"day = '{days[0].day}' and epoch <= '2026-03-01 12:02:00'")
    assert covered.count() == 0
    assert pinned(spark, tables.tail).where("epoch <= '2026-03-01 12:02:00'").count() > 0


def publish(spark: Any, settings: Settings, view: View, days: int, cut: Any) -> None:
    """As the batch layer does: days of the log up to a cut, each replaced in one commit."""
    from pyspark.sql import functions as F

    from braid.recompute import truth

    states = truth(spark, settings, view, cut)
    chosen = [row.day for row in states.select("day").distinct().orderBy(F.desc("day")).limit(days).collect()]
    rows = states.where(F.col("day").isin(chosen))
    listed = ", ".join(f"date'{day}'" for day in chosen)
    writer = rows.write.format("delta").mode("overwrite")
    writer.option("replaceWhere", f"day in ({listed})").save(tables_of(settings, view).base)


def test_a_kappa_view_folds_its_own_tail_into_its_base(spark: Any, settings: Settings, feed: Feed) -> None:
    kappa = replace(traffic, name="kappa", mode="kappa")
    often = Settings(home=settings.home, spark_master="local[2]", fold_every=timedelta(minutes=2))
    feed.commit([], 0)
    run_once(spark, often, kappa)
    for minute in range(1, 6):
        feed.commit(some(20, minute), minute)
        run_once(spark, often, kappa)
        assert served(spark, kappa, tables_of(often, kappa)) == recomputed(spark, kappa, often)
    base = pinned(spark, tables_of(often, kappa).base)
    assert base.where("through >= '2026-03-01 12:02:00'").count() > 0
    assert min(epochs(spark, often, kappa)) > 2


def test_late_events_are_counted_and_marked_as_revisions(spark: Any, settings: Settings, begun: Feed) -> None:
    one = {"host": "h", "url": "/", "bytes": 1}
    begun.commit([one | {"id": "a", "time": NOON}], 1)
    begun.commit([one | {"id": "b", "time": NOON + 30 * MINUTE}], 2)
    run_once(spark, settings, traffic)
    begun.commit(
        [one | {"id": "late", "time": NOON}, one | {"id": "not late", "time": NOON + 20 * MINUTE}], 3
    )
    run_once(spark, settings, traffic)
    rows = pinned(spark, tables_of(settings, traffic).tail).where("_late > 0").collect()
    assert [(row.pane.astimezone(NOON.tzinfo), row._late, row["count"]) for row in rows] == [(NOON, 1, 1)]
    assert served(spark, traffic, tables_of(settings, traffic)) == recomputed(spark, traffic, settings)


def test_an_optimize_or_a_vacuum_as_the_newest_commit_does_not_make_a_batch_count_twice(
    spark: Any, settings: Settings, begun: Feed
) -> None:
    tables = tables_of(settings, traffic)
    begun.commit(some(20, 1), 1)
    run_once(spark, settings, traffic)
    forget_last_batch(Path(tables.checkpoint))
    maintain(spark, tables.tail)
    run_once(spark, settings, traffic)
    assert served(spark, traffic, tables) == recomputed(spark, traffic, settings)


def forget_last_batch(checkpoint: Path) -> None:
    """As if the process had died after the commit and before the checkpoint."""
    last = max(
        (checkpoint / "commits").iterdir(), key=lambda file: int(file.name) if file.name.isdigit() else -1
    )
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)


def test_a_lost_checkpoint_is_refused_and_mended_by_the_command_that_is_named(
    spark: Any,
    settings: Settings,
    feed: Feed,
    braid: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    definitions = tmp_path / "definitions.py"
    definitions.write_text("from tests.streams import requests, traffic\n")
    monkeypatch.setenv("BRAID_DEFINITIONS", str(definitions))
    feed.commit(some(20, 0), 0)
    feed.beat(1)
    assert braid("stream", "traffic", "--once").code == 0
    tables = tables_of(settings, traffic)
    shutil.rmtree(tables.checkpoint)
    feed.commit(some(20, 2), 2)
    refused = braid("stream", "traffic", "--once")
    assert refused.code == 2
    assert "`braid recover traffic --yes`" in refused.err
    assert "Traceback" not in refused.err
    told = braid("recover", "traffic")
    assert told.code == 0
    assert "--yes" in told.out
    assert braid("recover", "traffic", "--yes").code == 0
    assert braid("stream", "traffic", "--once").code == 0
    assert served(spark, traffic, tables) == recomputed(spark, traffic, settings)


def test_a_second_driver_of_the_same_view_is_refused(spark: Any, settings: Settings, feed: Feed) -> None:
    from speed_layer.jobs.driver_lock import only_driver

    feed.commit(some(5, 0), 0)
    with only_driver(spark, settings, "stream-traffic-v1"), pytest.raises(BraidError, match="runs already"):
        run_once(spark, settings, traffic)


@pytest.mark.soak
def test_a_view_that_fails_does_not_stop_the_others_and_a_new_one_joins_them(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    broken = replace(traffic, name="broken", where="raise_error('no good') is null")
    stop = threading.Event()
    feed.commit(some(5, 0), 0)
    running = threading.Thread(
        target=stream, args=(spark, [traffic, broken], settings), kwargs={"stop": stop}
    )
    running.start()
    try:
        until(lambda: state(settings, "stream broken v1") == "retrying")
        feed.commit(some(20, 1), 1)
        until(lambda: in_step(spark, settings, traffic))
        with deployment.changing(settings, visits.name) as draft:
            draft.value = versions.deployed(draft.value, visits, NOON)
        until(lambda: state(settings, "stream visits v1") == "running" and in_step(spark, settings, visits))
        until(lambda: state(settings, "stream broken v1") == "retrying")
        assert any("no good" in str(query.error) for one in read_all(settings) for query in one.queries)
    finally:
        stop.set()
        running.join()


def state(settings: Settings, name: str) -> str | None:
    found = [query.state for one in read_all(settings) for query in one.queries if query.name == name]
    return found[0] if found else None


def in_step(spark: Any, settings: Settings, view: View) -> bool:
    tables = tables_of(settings, view)
    return Path(tables.tail, "_delta_log").is_dir() and served(spark, view, tables) == recomputed(
        spark, view, settings
    )


def test_each_micro_batch_looks_up_the_newest_version_of_a_table_and_says_which(
    spark: Any, settings: Settings, feed: Feed, tmp_path: Path
) -> None:
    users = str(tmp_path / "users")
    by_country = View(
        name="by_country", source=requests, keys=("country",), measures={"hits": count()},
        enrich=Lookup(table=users, on="host", columns=("country",), format="delta"),
    )  # fmt: skip
    for minute, country in enumerate(("DE", "FR")):
        table = spark.sql(f"select 'h' as host, '{country}' as country")
        table.write.format("delta").mode("overwrite").save(users)
        feed.commit([{"id": country, "time": NOON, "host": "h", "url": "/", "bytes": 1}], minute)
        run_once(spark, settings, by_country)
    tables = tables_of(settings, by_country)
    counted = {row.country: row["count"] for row in served_states(spark, by_country, tables).collect()}
    assert counted == {"DE": 1, "FR": 1}
    said = [commit.lookups for _, commit in described(tables.tail, TailCommit.from_json) if not commit.fold]
    assert said == [{users: "1"}, {users: "0"}]
