"""Two engines at once, where no lock keeps the second one out: one of them goes on, the other one is told."""

import threading
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import speed_layer.stream.fold as folds
from braid.deploy import store as deployment
from braid.errors import BraidError
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.commits import Commit, TailCommit, described, newest_commit, newest_tail_commit
from braid.tables.delta_log import newest_version, transactions
from braid.tables.spark_tables import pinned, throughs
from speed_layer.ingest.appender import Appender
from speed_layer.jobs.engine import stream
from speed_layer.stream import live
from speed_layer.stream.fold import Folding
from speed_layer.stream.job import StreamJob
from speed_layer.stream.live import follow
from speed_layer.stream.tail import TailWriter
from tests.streams import MINUTE, NOON, Feed, recomputed, requests, run_once, served, some, tables_of, traffic
from tests.waiting import until

kappa = replace(traffic, mode="kappa")


@pytest.fixture
def settings(home: Path) -> Settings:
    """A home that is a URI has no lock, wherever it lies."""
    return Settings(
        home=f"file://{home}",
        spark_master="local[2]",
        kafka_bootstrap="127.0.0.1:1",
        fold_every=timedelta(minutes=2),
    )


@pytest.fixture
def feed(spark: Any, settings: Settings) -> Feed:
    return Feed(spark, Log(requests, settings))


@dataclass(frozen=True)
class Begun:
    """A stream that has begun, and is told by the test what to read and when to fold."""

    writer: TailWriter
    folding: Folding

    def reads(self, feed: Feed) -> None:
        """All that is there."""
        assert self.writer.last is not None
        follow(self.writer, list(transactions(feed.log.table, self.writer.last.position.version)))


def begun(spark: Any, settings: Settings) -> Begun:
    version = deployment.load(settings, traffic.name).active
    assert version is not None
    job = StreamJob(spark, settings, lambda: NOON + timedelta(days=3), version=version)
    job.start(once=True)
    job.stop()
    assert job.tail_writer is not None
    assert job.folding is not None
    job.tail_writer.stopping.clear()
    return Begun(job.tail_writer, job.folding)


def engine(spark: Any, settings: Settings) -> TailWriter:
    return begun(spark, settings).writer


@pytest.mark.parametrize("written_by", ["the driver", "Spark"])
def test_the_batch_of_the_second_is_noticed_and_neither_counted_nor_waited_for(
    spark: Any, settings: Settings, feed: Feed, written_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if written_by == "Spark":
        monkeypatch.setattr(live, "LARGE", 0)
    feed.commit(some(20, 0), 0)
    run_once(spark, settings, traffic)
    first, second = engine(spark, settings), engine(spark, settings)
    feed.commit(some(20, 1), 1)
    assert first.last is not None
    news = list(transactions(feed.log.table, first.last.position.version))
    assert follow(first, news) == 20
    before = second.last
    with pytest.raises(BraidError, match=r"another process writes to .*traffic.*Stop one of the two"):
        follow(second, news)
    assert second.last == before
    assert served(spark, traffic, tables_of(settings, traffic)) == recomputed(spark, traffic, settings)
    # What is in doubt is looked up by the next start, which goes on after the other one.
    again = engine(spark, settings)
    assert again.last == newest_tail_commit(tables_of(settings, traffic).tail)
    feed.commit(some(20, 2), 2)
    follow(again, list(transactions(feed.log.table, news[-1].version + 1)))
    assert served(spark, traffic, tables_of(settings, traffic)) == recomputed(spark, traffic, settings)


def test_a_fold_of_the_second_does_not_say_an_old_batch_again(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    feed.commit(some(20, 0), 0)
    run_once(spark, settings, traffic)
    first, second = engine(spark, settings), engine(spark, settings)
    feed.commit(some(20, 1), 1)
    assert first.last is not None
    follow(first, list(transactions(feed.log.table, first.last.position.version)))
    with pytest.raises(BraidError, match="another process writes to"):
        second.repeat()
    assert newest_tail_commit(tables_of(settings, traffic).tail) == first.last


def test_a_heartbeat_of_the_second_does_not_say_an_old_batch_again(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    feed.commit(some(5, 0), 0)
    nobody: Any = None

    def ingest() -> Appender:
        writer = Appender(
            spark=spark,
            checkpoint=nobody,
            log=feed.log,
            clock=lambda: NOON + 9 * MINUTE,
            counted=lambda batch: None,
        )
        writer.begin()
        return writer

    first, second = ingest(), ingest()
    assert first.last is not None
    first._write(first._nothing(), replace(first.last, batch=first.last.batch + 1, epoch=NOON + MINUTE))
    with pytest.raises(BraidError, match="another process writes to"):
        second.beat()
    newest = newest_commit(feed.log.table)
    assert isinstance(newest, Commit)
    assert newest.batch == 1


@pytest.mark.parametrize("folds_too", [False, True], ids=["reads on", "reads on and folds"])
def test_of_two_that_fold_at_once_no_interval_between_their_cuts_is_lost(
    spark: Any, settings: Settings, feed: Feed, monkeypatch: pytest.MonkeyPatch, folds_too: bool
) -> None:
    feed.commit(some(20, 0), 0)
    feed.beat(1)
    run_once(spark, settings, kappa)
    first = begun(spark, settings)
    for minute in range(2, 6):
        feed.commit(some(10, minute), minute)
    feed.beat(6)
    first.reads(feed)
    second = begun(spark, settings)
    assert first.writer.last == second.writer.last
    tables, left = tables_of(settings, kappa), [True]
    before = folds.totals_by_day

    def meanwhile(rows: Any) -> Any:
        """The second has pinned tail and base, and has not committed yet."""
        if left:
            left.clear()
            feed.commit(some(10, 8), 8)
            feed.beat(12)
            first.reads(feed)
            if folds_too:
                first.folding.tidy()
        return before(rows)

    monkeypatch.setattr(folds, "totals_by_day", meanwhile)

    def goes_on() -> None:
        """Where the first has folded too, the second finds nothing left to say of its fold, and reads on."""
        second.folding.tend()
        second.reads(feed)

    with pytest.raises(BraidError, match="another process writes to"):
        goes_on()
    assert not left, "the second has folded while the first was at work"
    assert served(spark, kappa, tables) == recomputed(spark, kappa, settings)
    first.folding.tidy()
    newest = newest_tail_commit(tables.tail)
    assert newest is not None
    assert first.writer.last is not None
    assert (newest.batch, newest.position) == (first.writer.last.batch, first.writer.last.position)
    assert served(spark, kappa, tables) == recomputed(spark, kappa, settings)
    assert max(throughs(pinned(spark, tables.base)).values()) == NOON + 11 * MINUTE
    # The next start goes on where the one that was alone has ended, and folds the interval that comes.
    feed.commit(some(10, 13), 13)
    feed.beat(17)
    run_once(spark, settings, kappa)
    assert served(spark, kappa, tables) == recomputed(spark, kappa, settings)
    assert max(throughs(pinned(spark, tables.base)).values()) == NOON + 16 * MINUTE


def test_the_second_of_two_whole_engines_ends_with_what_a_person_must_know(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    feed.commit(some(20, 0), 0)
    run_once(spark, settings, traffic)
    stop, ended = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            stream(spark, [traffic], settings, only=True, stop=stop, clock=lambda: NOON + timedelta(days=3))
        except BaseException as error:
            ended.append(error)

    engines = [threading.Thread(target=run, daemon=True) for _ in range(2)]
    for one in engines:
        one.start()
    tail = tables_of(settings, traffic).tail

    def has_read_all() -> bool:
        last, newest = newest_tail_commit(tail), newest_version(feed.log.table)
        return last is not None and newest is not None and last.position.version > newest

    def following() -> int:
        return sum(one.name == "stream traffic v1" for one in threading.enumerate())

    try:
        until(lambda: following() == 2)
        feed.commit(some(10, 1), 1)
        until(lambda: bool(ended), timeout=60)
        feed.commit(some(10, 2), 2)
        until(has_read_all)
    finally:
        stop.set()
        for one in engines:
            one.join(60)
    assert isinstance(ended[0], BraidError)
    assert "another process writes to" in str(ended[0])
    assert len(ended) == 1, "the other one was not disturbed"
    assert served(spark, traffic, tables_of(settings, traffic)) == recomputed(spark, traffic, settings)
    batches = Counter(said.batch for _, said in described(tail, TailCommit.from_json) if not said.fold)
    assert max(batches.values()) == 1


def test_a_home_without_a_lock_is_always_strict(settings: Settings) -> None:
    assert settings.is_fenced
    assert not Settings(home="/data").is_fenced
    assert Settings(home="/data", strict=True).is_fenced
    assert Settings(home="s3a://bucket/home").is_fenced
