"""Tables that were lost, cleaned up or replaced are refused with the way out, and no number is counted twice."""

import json
import os
import shutil
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from batch_layer.plan import plan
from braid.errors import BraidError
from braid.infra.broker import Broker
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.commits import Commit, described, newest_commit, newest_tail_commit
from braid.tables.delta_rs import open_table
from braid.tables.maintenance import vacuum
from speed_layer.ledger.balance import take_stock
from speed_layer.recovery import keep_word, plan_view
from speed_layer.stream import counts, live
from speed_layer.stream.job import StreamJob
from tests.ingesting import event, ids, recover, rows, run
from tests.kafka import send
from tests.streams import NOON, Feed, recomputed, run_once, served, some, tables_of, traffic

local = pytest.mark.usefixtures("home")


def clean_up(spark: Any, table: str) -> None:
    """As Delta does when the retention is over: commits up to a checkpoint are deleted."""
    # Two commits of somebody else, such as those of a VACUUM at night.
    for value in ("1", "2"):
        spark.sql(f"alter table delta.`{table}` set tblproperties ('somebody.else' = '{value}')")
    opened = open_table(table)
    assert opened is not None
    opened.create_checkpoint()
    newest = opened.version()
    for version in range(newest):
        Path(table, f"_delta_log/{version:020d}.json").unlink(missing_ok=True)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert next(described(table, Commit.from_json), None) is None


@pytest.mark.parametrize("written_by", ["the driver", "Spark"])
def test_a_catch_up_without_a_match_ends(
    spark: Any, at_home: Settings, feed: Feed, written_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if written_by == "Spark":
        monkeypatch.setattr(live, "LARGE", 20_000)
    big = replace(traffic, name="big", where="bytes > 1000000")
    one = {"host": "h", "url": "/", "bytes": 1, "time": NOON}
    feed.commit([one | {"id": "first", "bytes": 2_000_000}], 0)
    run_once(spark, at_home, big)
    feed.commit([one | {"id": str(n)} for n in range(20_001)], 1)
    done = threading.Event()

    def reads() -> None:
        run_once(spark, at_home, big)
        done.set()

    threading.Thread(target=reads, daemon=True).start()
    assert done.wait(120), "the stream waits for a count that never comes"
    feed.commit([one | {"id": "last", "bytes": 2_000_000}], 2)
    run_once(spark, at_home, big)
    assert served(spark, big, tables_of(at_home, big)) == recomputed(spark, big, at_home)


def test_a_count_that_spark_does_not_tell_is_made_from_what_was_written(
    spark: Any, at_home: Settings, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All that comes is too large for the driver: Spark counts what it writes.
    monkeypatch.setattr(live, "LARGE", 0)
    feed.commit(some(20, 0), 0)
    run_once(spark, at_home, traffic)
    monkeypatch.setattr(counts, "reported", lambda observation, patience: None)
    feed.commit(some(30, 1), 1)
    feed.beat(2)
    job = started(spark, at_home)
    assert job.tail_writer is not None
    assert job.tail_writer.counts.events == sum(1 for one in some(30, 1) if one["bytes"] < 900)
    last = newest_tail_commit(tables_of(at_home, traffic).tail)
    assert last is not None
    assert last.seen is not None


def started(spark: Any, settings: Settings) -> StreamJob:
    """The stream of the view, run over what is there."""
    from braid.deploy import store as deployment

    version = deployment.load(settings, traffic.name).active
    assert version is not None
    job = StreamJob(spark, settings, lambda: NOON + timedelta(days=3), version=version)
    job.start(once=True)
    assert job.follower is not None
    job.follower.join()
    assert job.follower.failure is None
    job.stop()
    job.finish(once=True)
    return job


def test_a_tail_that_is_lost_beside_a_full_base_is_not_begun_anew(
    spark: Any, at_home: Settings, feed: Feed
) -> None:
    kappa = replace(traffic, mode="kappa")
    feed.commit(some(50, 0), 0)
    feed.beat(1)
    run_once(spark, at_home, kappa)
    for minute in range(2, 8):
        feed.commit(some(10, minute), minute)
    feed.beat(8)
    run_once(spark, at_home, kappa)
    tables = tables_of(at_home, kappa)
    feed.commit(some(10, 9), 9)
    feed.beat(10)
    shutil.rmtree(tables.tail)
    shutil.rmtree(tables.checkpoint, ignore_errors=True)
    for _ in range(2):
        with pytest.raises(BraidError, match=r"counted twice.*`braid kappa replay traffic`"):
            run_once(spark, at_home, kappa)
    assert not Path(tables.tail).exists()


def test_a_batch_plan_does_not_call_a_view_up_to_date_whose_tail_is_lost(
    spark: Any, at_home: Settings, feed: Feed
) -> None:
    from batch_layer.run import Asked
    from batch_layer.run import run as batch

    feed.commit(some(50, 0), 0)
    feed.beat(1)
    run_once(spark, at_home, traffic)
    batch(lambda: spark, at_home, [traffic], Asked())
    tables = tables_of(at_home, traffic)
    assert {day.state for day in plan(at_home, [traffic])[0].days} == {"up to date"}
    shutil.rmtree(tables.tail)
    found = plan(at_home, [traffic])[0].days
    assert {day.state for day in found} == {"tail lost"}
    assert all("`braid kappa replay traffic`" in day.reason for day in found)


def test_a_log_that_another_one_was_put_in_the_place_of_is_refused(
    spark: Any, at_home: Settings, feed: Feed, tmp_path: Path
) -> None:
    feed.commit(some(10, 0), 0)
    run_once(spark, at_home, traffic)
    shutil.copytree(feed.log.table, tmp_path / "backup")
    feed.commit(some(10, 1), 1)
    run_once(spark, at_home, traffic)
    last = newest_tail_commit(tables_of(at_home, traffic).tail)
    assert last is not None
    assert last.log
    assert last.read
    shutil.rmtree(feed.log.table)
    shutil.copytree(tmp_path / "backup", feed.log.table)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    with pytest.raises(BraidError, match=r"it ends at commit 1.*`braid kappa replay traffic`"):
        run_once(spark, at_home, traffic)
    # What was read is ingested again, under the same number, and more.
    feed.commit(some(7, 1, seed=5), 1)
    feed.commit(some(7, 2, seed=5), 2)
    with pytest.raises(BraidError, match=r"commit 2 is another.*`braid kappa replay traffic`"):
        run_once(spark, at_home, traffic)
    shutil.rmtree(feed.log.table)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    for minute in range(4):
        feed.commit(some(7, minute, seed=6), minute)
    with pytest.raises(BraidError, match=r"it is the table .*`braid kappa replay traffic`"):
        run_once(spark, at_home, traffic)


def test_a_day_is_not_published_from_a_log_that_is_not_the_one_of_its_tail(
    spark: Any, at_home: Settings, feed: Feed
) -> None:
    """A cut of before: the new log has nothing up to it, and what the tail has up to it would count no more."""
    from batch_layer.run import Asked
    from batch_layer.run import run as batch

    hits = replace(traffic, measures={"hits": traffic.measures["hits"]})
    feed.commit([], 0)
    run_once(spark, at_home, hits)
    for minute in (1, 2):
        feed.commit(some(20, minute), minute)
    run_once(spark, at_home, hits)
    before = served(spark, hits, tables_of(at_home, hits))
    shutil.rmtree(feed.log.table)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    feed.commit(some(20, 1) + some(20, 2), 5)
    feed.beat(7)
    with pytest.raises(BraidError, match=r"it is the table .*`braid kappa replay traffic`"):
        batch(lambda: spark, at_home, [hits], Asked(cut=NOON + timedelta(minutes=1), force=True))
    assert served(spark, hits, tables_of(at_home, hits)) == before


def test_a_view_that_was_published_before_its_stream_began_knows_its_log(
    spark: Any, at_home: Settings, feed: Feed
) -> None:
    from batch_layer.run import Asked
    from batch_layer.run import run as batch

    feed.commit(some(20, 1), 1)
    feed.beat(2)
    batch(lambda: spark, at_home, [traffic], Asked())
    tables = tables_of(at_home, traffic)
    before = served(spark, traffic, tables)
    shutil.rmtree(feed.log.table)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    # The same events, ingested later: beyond the cut of the day that has them.
    feed.commit(some(20, 1), 5)
    feed.beat(6)
    with pytest.raises(BraidError, match=r"it is the table .*`braid kappa replay traffic`"):
        run_once(spark, at_home, traffic)
    assert served(spark, traffic, tables) == before


def test_a_tail_whose_commits_do_not_say_which_log_they_read_is_gone_on_with(
    spark: Any, at_home: Settings, feed: Feed
) -> None:
    feed.commit(some(10, 0), 0)
    run_once(spark, at_home, traffic)
    tail = Path(tables_of(at_home, traffic).tail)
    for commit in (tail / "_delta_log").glob("*.json"):
        commit.write_text(_without_identity(commit.read_text()))
    (tail / "_braid.json").unlink()
    feed.commit(some(10, 1), 1)
    run_once(spark, at_home, traffic)
    assert served(spark, traffic, tables_of(at_home, traffic)) == recomputed(spark, traffic, at_home)


def _without_identity(text: str) -> str:
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        if said := line.get("commitInfo", {}).get("userMetadata"):
            values = {k: v for k, v in json.loads(said).items() if k not in ("log", "read")}
            line["commitInfo"]["userMetadata"] = json.dumps(values)
    return "\n".join(map(json.dumps, lines)) + "\n"


def test_a_stream_at_rest_goes_on_after_its_commits_were_cleaned_up(
    spark: Any, at_home: Settings, feed: Feed
) -> None:
    feed.commit(some(20, 0), 0)
    feed.commit(some(20, 1), 1)
    run_once(spark, at_home, traffic)
    tables = tables_of(at_home, traffic)
    clean_up(spark, tables.tail)
    vacuum(spark, tables.tail)
    feed.commit(some(20, 2), 2)
    run_once(spark, at_home, traffic)
    assert served(spark, traffic, tables) == recomputed(spark, traffic, at_home)


def test_a_killed_stream_is_kept_by_maintenance_and_refused_without_it(
    spark: Any, at_home: Settings, feed: Feed
) -> None:
    feed.commit(some(20, 0), 0)
    feed.commit(some(20, 1), 1)
    run_once(spark, at_home, traffic)
    tables = tables_of(at_home, traffic)
    kept = Path(tables.tail, "_braid.json")
    # As a process that is killed leaves it.
    kept.unlink()
    keep_word(at_home, "stream-traffic-v1", tables.tail, newest_tail_commit)
    clean_up(spark, tables.tail)
    feed.commit(some(20, 2), 2)
    run_once(spark, at_home, traffic)
    assert served(spark, traffic, tables) == recomputed(spark, traffic, at_home)
    kept.unlink()
    clean_up(spark, tables.tail)
    with pytest.raises(BraidError, match=r"`braid kappa replay traffic`"):
        run_once(spark, at_home, traffic)
    with pytest.raises(BraidError, match=r"counted? .*twice.*`braid kappa replay traffic`|count them twice"):
        plan_view(traffic, tables)


def ingested(spark: Any, log: Log, broker: Broker, names: list[str]) -> None:
    send(broker.bootstrap, str(log.source.kafka_topic), [event(name) for name in names])
    run(spark, log)


def test_a_source_at_rest_goes_on_after_its_commits_were_cleaned_up(
    spark: Any, log: Log, broker: Broker
) -> None:
    ingested(spark, log, broker, ["a", "b"])
    before = newest_commit(log.table)
    clean_up(spark, log.table)
    # Older than any retention: only what its name says keeps it.
    os.utime(Path(log.table, "_braid.json"), (0, 0))
    vacuum(spark, log.table)
    assert newest_commit(log.table) == before
    ingested(spark, log, broker, ["c"])
    assert ids(spark, log) == ["a", "b", "c"]
    assert take_stock(log).balanced


def test_a_source_that_does_not_say_how_far_it_was_read_is_recovered_from_its_rows(
    spark: Any, log: Log, broker: Broker
) -> None:
    ingested(spark, log, broker, [str(n) for n in range(9)])
    newest = newest_commit(log.table)
    assert newest is not None
    # As a home of an earlier release, or after a kill that nobody looked after for a week.
    Path(log.table, "_braid.json").unlink()
    clean_up(spark, log.table)
    view = replace(
        traffic, source=replace(log.source), keys=(), where=None, measures={"hits": traffic.measures["hits"]}
    )
    (planned,) = plan(log.settings, [view])
    assert [day.state for day in planned.days] == ["never computed"]
    send(broker.bootstrap, str(log.source.kafka_topic), [event("new")])
    with pytest.raises(BraidError, match=r"no commit that says how far it goes.*`braid recover requests`"):
        run(spark, log)
    recover(spark, log)
    run(spark, log)
    assert ids(spark, log) == sorted([*map(str, range(9)), "new"])
    again = newest_commit(log.table)
    assert again is not None
    epochs = [row._epoch for row in rows(spark, log).where("id = 'new'").select("_epoch").collect()]
    assert again.epoch > planned.cut
    assert all(epoch.timestamp() > planned.cut.timestamp() for epoch in epochs)
