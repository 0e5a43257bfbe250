"""Writers that meet at the worst moment: between what one has read and what it commits, another commits."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import batch_layer.publish as publishing
import speed_layer.stream.fold as folding
import speed_layer.stream.small_fold as small_folding
from braid import Source, View, count, tumbling
from braid.deploy import store as deployment
from braid.log.lookups import LookupTables
from braid.log.table import Log
from braid.recompute import day_rows, recompute
from braid.runtime.settings import Settings
from braid.tables.delta_log import transactions
from braid.tables.spark_tables import pinned, throughs
from speed_layer.stream.fold import Folding
from speed_layer.stream.job import StreamJob
from speed_layer.stream.live import follow
from tests.streams import MINUTE, NOON, Feed, recomputed, served, tables_of

requests = Source(
    name="requests", kafka_topic="requests", schema="id string, time timestamp, url string",
    event_time="time", event_id="id",
)  # fmt: skip
hits = View(
    name="hits", source=requests, keys=("url",), window=tumbling("1 hour"), measures={"hits": count()}
)
TODAY, BEFORE = NOON.date(), NOON.date() - timedelta(days=1)


@pytest.fixture
def settings(at_home: Settings) -> Settings:
    return at_home


@pytest.fixture
def feed(spark: Any, settings: Settings) -> Feed:
    return Feed(spark, Log(requests, settings))


@pytest.fixture
def begun(
    request: pytest.FixtureRequest, spark: Any, settings: Settings, feed: Feed, made_once: Callable[..., Path]
) -> StreamJob:
    """The stream of `hits`, or of the view that is given, which has begun with an empty log."""
    view: View = getattr(request, "param", hits)

    def make(folder: Path) -> None:
        here = settings.model_copy(update={"home": str(folder)})
        Feed(spark, Log(requests, here)).commit([], 0)
        started(spark, here, view)

    shutil.copytree(made_once(f"begun-{view.mode}", make), settings.home)
    feed.batch = 0
    return started(spark, settings, view)


def some(number: int, name: str, day: date = TODAY) -> list[dict[str, Any]]:
    time = NOON if day == TODAY else NOON - timedelta(days=1)
    return [{"id": f"{name}-{n}", "time": time, "url": f"/{n % 3}"} for n in range(number)]


def started(spark: Any, settings: Settings, view: View, fold: bool = True) -> StreamJob:
    """A stream that has read what its log holds, and is told by the test what it reads next."""
    deployment.deploy_first(settings, view, NOON)
    version = deployment.load(settings, view.name).active
    assert version is not None
    job = StreamJob(spark, settings, lambda: NOON + timedelta(days=3), version=version)
    job.start(once=True)
    if job.query is not None:
        job.query.awaitTermination()
    else:
        assert job.follower is not None
        job.follower.join()
    if fold:
        folds_of(job).tidy()
    return job


def folds_of(job: StreamJob) -> Folding:
    assert job.folding is not None
    return job.folding


def reads_next(job: StreamJob) -> bool:
    """One commit of the log, if there is one."""
    writer = job.tail_writer
    assert writer is not None
    assert writer.last is not None
    found = next(transactions(job.log.table, writer.last.position.version), None)
    if found is not None:
        follow(writer, [found])
    return found is not None


def computed(spark: Any, settings: Settings, view: View, day: date, cut: Any) -> Any:
    rows = day_rows(spark, Log(view.source, settings), [day], cut)
    return recompute(view, rows, LookupTables(spark, settings, cut)).states


def publish(spark: Any, settings: Settings, view: View, states: Any, cut: Any) -> Any:
    """Today's states into the base; the cut that it covers then."""
    return publishing.publish(spark, tables_of(settings, view), view, states, {TODAY: cut}, {TODAY})[TODAY]


def once(act: Callable[[], Any], before: Callable[..., Any]) -> Callable[..., Any]:
    """A function that lets something happen before it is called for the first time."""
    left = [act]

    def called(*args: Any, **named: Any) -> Any:
        if left:
            left.pop()()
        return before(*args, **named)

    return called


def while_it_folds(act: Callable[[], Any], by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets something happen when the first fold has read its epochs, and its commit is still to come."""
    if by == "Spark":
        monkeypatch.setattr(small_folding, "MOST_BYTES", -1)
    room, check = (folding, "unchanged") if by == "Spark" else (small_folding, "refuse_change")
    monkeypatch.setattr(room, check, once(act, getattr(room, check)))


@pytest.mark.parametrize("folded_by", ["the driver", "Spark"])
def test_a_stream_that_lags_behind_a_publish_loses_nothing_when_it_collects(
    spark: Any,
    settings: Settings,
    feed: Feed,
    begun: StreamJob,
    folded_by: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = begun
    for part in range(4):
        feed.commit(some(5, f"a{part}") + some(3, f"b{part}", BEFORE), 1)
    feed.beat(3)
    # The stream is in the middle of epoch 1, and today is published up to epoch 2.
    reads_next(job)
    reads_next(job)
    tables, cut = tables_of(settings, hits), NOON + 2 * MINUTE
    publish(spark, settings, hits, computed(spark, settings, hits, TODAY, cut), cut)
    while_it_folds(partial(reads_next, job), folded_by, monkeypatch)
    folds_of(job).tidy()
    while reads_next(job):
        folds_of(job).tidy()
    assert served(spark, hits, tables) == recomputed(spark, hits, settings)
    assert pinned(spark, tables.tail).where(f"day = date'{TODAY}'").count() == 0, (
        "what is covered is collected"
    )
    assert pinned(spark, tables.tail).where(f"day = date'{BEFORE}'").count() > 0


@pytest.mark.parametrize("folded_by", ["the driver", "Spark"])
def test_what_is_appended_to_an_epoch_after_it_was_read_is_not_replaced(
    spark: Any,
    settings: Settings,
    feed: Feed,
    begun: StreamJob,
    folded_by: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody may append to an epoch that is complete; if somebody does, it is seen before the commit."""
    job = begun
    for part in range(2):
        feed.commit(some(5, f"a{part}"), 1)
    feed.beat(4)
    while reads_next(job):
        pass
    feed.commit(some(7, "late"), 1)
    while_it_folds(partial(reads_next, job), folded_by, monkeypatch)
    assert folds_of(job).tend()
    tables = tables_of(settings, hits)
    assert served(spark, hits, tables) == recomputed(spark, hits, settings)
    folds_of(job).tidy()
    assert served(spark, hits, tables) == recomputed(spark, hits, settings)


@pytest.mark.parametrize("begun", [replace(hits, mode="kappa")], indirect=True, ids=["kappa"])
def test_a_fold_does_not_take_a_publish_back_that_is_made_meanwhile(
    spark: Any, settings: Settings, feed: Feed, begun: StreamJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    kappa, job = begun.version.view, begun
    for minute in (1, 2, 3, 4):
        feed.commit(some(10 * minute, f"m{minute}"), minute)
    for _ in range(4):
        reads_next(job)
    feed.beat(9)
    tables, later = tables_of(settings, kappa), NOON + 4 * MINUTE
    states = computed(spark, settings, kappa, TODAY, later)

    def meanwhile() -> None:
        assert publish(spark, settings, kappa, states, later) == later

    monkeypatch.setattr(folding, "totals_by_day", once(meanwhile, folding.totals_by_day))
    assert folds_of(job).tend()
    assert throughs(pinned(spark, tables.base)) == {TODAY: later}
    assert served(spark, kappa, tables) == recomputed(spark, kappa, settings)
    folds_of(job).tidy()
    assert served(spark, kappa, tables) == recomputed(spark, kappa, settings)


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize("published_by", ["the driver", "Spark"])
def test_of_two_publishes_of_a_day_the_later_cut_stays(
    spark: Any, settings: Settings, feed: Feed, published_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minute in (1, 2, 3):
        feed.commit(some(10 * minute, f"m{minute}"), minute)
    feed.beat(9)
    tables, early, later = tables_of(settings, hits), NOON + MINUTE, NOON + 3 * MINUTE
    first, second = (computed(spark, settings, hits, TODAY, cut) for cut in (early, later))
    made_ready = "_rows"
    if published_by == "the driver":
        first, second, made_ready = first.toArrow(), second.toArrow(), "_rows_here"

    def meanwhile() -> None:
        assert publish(spark, settings, hits, second, later) == later

    monkeypatch.setattr(publishing, made_ready, once(meanwhile, getattr(publishing, made_ready)))
    assert publish(spark, settings, hits, first, early) == later
    assert throughs(pinned(spark, tables.base)) == {TODAY: later}


def test_a_publish_whose_cut_is_behind_the_history_of_a_stream_that_began_meanwhile_is_not_made(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    for minute in (1, 2, 3):
        feed.commit(some(10 * minute, f"m{minute}"), minute)
    feed.beat(9)
    early = NOON + MINUTE
    first = computed(spark, settings, hits, TODAY, early)
    job = started(spark, settings, hits, fold=False)
    tables = tables_of(settings, hits)
    assert publish(spark, settings, hits, first, early) == NOON + 8 * MINUTE
    assert served(spark, hits, tables) == recomputed(spark, hits, settings)
    folds_of(job).tidy()
    assert served(spark, hits, tables) == recomputed(spark, hits, settings)
