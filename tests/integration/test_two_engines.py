"""Two engines at once, where no lock keeps the second one out: one of them goes on, the other one is told."""

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from braid.deploy import store as deployment
from braid.errors import BraidError
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.commits import Commit, newest_commit, newest_tail_commit
from braid.tables.delta_log import transactions
from speed_layer.ingest.appender import Appender
from speed_layer.stream.fold import Folding
from speed_layer.stream.job import StreamJob
from speed_layer.stream.tail import TailWriter
from tests.streams import MINUTE, NOON, Feed, recomputed, requests, run_once, served, some, tables_of, traffic

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
        self.writer.follow(list(transactions(feed.log.table, self.writer.last.position.version)))


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


def test_the_batch_of_the_second_is_noticed_and_neither_counted_nor_waited_for(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    feed.commit(some(20, 0), 0)
    run_once(spark, settings, traffic)
    first, second = engine(spark, settings), engine(spark, settings)
    feed.commit(some(20, 1), 1)
    assert first.last is not None
    news = list(transactions(feed.log.table, first.last.position.version))
    assert first.follow(news) == 20
    before = second.last
    with pytest.raises(BraidError, match=r"another process writes to .*traffic.*Stop one of the two"):
        second.follow(news)
    assert second.last == before
    assert served(spark, traffic, tables_of(settings, traffic)) == recomputed(spark, traffic, settings)
    # What is in doubt is looked up by the next start, which goes on after the other one.
    again = engine(spark, settings)
    assert again.last == newest_tail_commit(tables_of(settings, traffic).tail)
    feed.commit(some(20, 2), 2)
    again.follow(list(transactions(feed.log.table, news[-1].version + 1)))
    assert served(spark, traffic, tables_of(settings, traffic)) == recomputed(spark, traffic, settings)


def test_a_fold_of_the_second_does_not_say_an_old_batch_again(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    feed.commit(some(20, 0), 0)
    run_once(spark, settings, traffic)
    first, second = engine(spark, settings), engine(spark, settings)
    feed.commit(some(20, 1), 1)
    assert first.last is not None
    first.follow(list(transactions(feed.log.table, first.last.position.version)))
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


def test_a_home_without_a_lock_is_always_strict(settings: Settings) -> None:
    assert settings.is_fenced
    assert not Settings(home="/data").is_fenced
    assert Settings(home="/data", strict=True).is_fenced
    assert Settings(home="s3a://bucket/home").is_fenced
