"""The live edge: what Python commits is what Spark would have, for all views of a log, and whoever reads it."""

import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from braid import (
    Lookup,
    Source,
    View,
    all_time,
    approx_distinct,
    count,
    max_,
    mean,
    min_,
    quantile,
    session,
    stddev,
    sum_,
    tumbling,
)
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.runtime.status import read_all
from braid.tables.commits import TailCommit, described
from braid.tables.delta_log import newest_version, transaction, transactions
from braid.tables.delta_rs import open_table
from braid.tables.spark_tables import pinned
from speed_layer.jobs.engine import stream
from speed_layer.stream import live
from speed_layer.stream.job import StreamJob
from speed_layer.stream.states import LiveBatch
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

odd = Source(
    name="odd", kafka_topic="odd", event_time="time", timezone="Asia/Kathmandu",
    schema="time timestamp, a_key string, flag boolean, size double, price decimal(10,2), tiny tinyint, day_ date",
)  # fmt: skip
everything = View(
    name="everything", source=odd, keys=("a_key", "flag"), window=tumbling("15 minutes"),
    measures={
        "n": count(), "total": sum_("price"), "low": min_("size"), "high": max_("size"), "mid": mean("size"),
        "spread": stddev("price"), "who": approx_distinct("a_key"), "p90": quantile("size", 0.9),
        "oldest": min_("day_"), "least": sum_("tiny"),
    },
)  # fmt: skip
stretches = View(
    name="stretches", source=odd, keys=("flag",), window=session(gap="5 minutes"), where="size is not null",
    measures={"n": count(), "p50": quantile("price", 0.5)},
)  # fmt: skip
ever = View(name="ever", source=odd, window=all_time(), measures={"n": count(), "most": max_("price")})
ODD = (everything, stretches, ever)


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home), spark_master="local[2]", kafka_bootstrap="127.0.0.1:1")


def nasty(minute: int) -> list[dict[str, Any]]:
    """Empty, missing, very large and very late values, times between two microseconds of a pane, and times to come."""
    keys = ("", None, "é\u0000%3A/ =", "a", "A", " a")
    sizes = (None, 0.0, -0.0, float("nan"), float("inf"), -1e300, 5e-324, 1.5)
    return [
        {
            "time": NOON + minute * MINUTE + delay,
            "a_key": keys[n % len(keys)],
            "flag": (True, False, None)[n % 3],
            "size": sizes[n % len(sizes)],
            "price": None if n % 5 == 0 else Decimal(n * (-1) ** n) / 100,
            "tiny": n % 100,
            "day_": None if n % 4 else (NOON + n * MINUTE * 997).date(),
        }
        for n, delay in enumerate(
            [timedelta(microseconds=step) for step in (-1, 0, 1, 999, 1001)] * 4
            + [timedelta(days=-step) for step in (1, 2, 400)] * 3
            + [timedelta(minutes=step) for step in (-60, -20, -6, 90)] * 3
        )
    ]


def live_rows(spark: Any, settings: Settings, views: Sequence[View]) -> dict[str, Counter[Any]]:
    """What some minutes of nasty events leave in each tail, as its files have it."""
    feed = Feed(spark, Log(odd, settings))
    feed.commit([], 0)
    run_once(spark, settings, *views)
    for minute in (1, 1, 2, 40):
        feed.commit(nasty(minute), minute)
        run_once(spark, settings, *views)
    feed.beat(41)
    feed.commit(nasty(42), 42)
    feed.commit(nasty(43), 43)
    run_once(spark, settings, *views)
    return {view.name: tail_rows(spark, settings, view) for view in views}


def tail_rows(spark: Any, settings: Settings, view: View) -> Counter[Any]:
    rows = pinned(spark, tables_of(settings, view).tail)
    return Counter(str(row.asDict(recursive=True)) for row in rows.collect())


def said(settings: Settings, view: View) -> list[dict[str, Any]]:
    """What the commits of a tail say, but for who says it."""
    own = {"query": "", "log": "", "read": "", "base": "", "token": ""}
    return [asdict(one) | own for _, one in described(tables_of(settings, view).tail, TailCommit.from_json)]


def test_both_ways_to_make_a_tail_give_the_same_rows_and_say_the_same(
    spark: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, sparks = (Settings(home=str(home / name), spark_master="local[2]") for name in ("ours", "sparks"))
    found = live_rows(spark, ours, ODD)
    monkeypatch.setattr(live, "LARGE", -1)
    expected = live_rows(spark, sparks, ODD)
    for view in ODD:
        assert found[view.name] == expected[view.name], view.name
        assert found[view.name]
        assert said(ours, view) == said(sparks, view)
        # As text: what is not a number equals nothing, not even itself.
        merged, true = served(spark, view, tables_of(ours, view)), recomputed(spark, view, ours)
        assert sorted(map(repr, merged.elements())) == sorted(map(repr, true.elements()))
        ours_engine, sparks_engine = (engines(settings, view) for settings in (ours, sparks))
        assert "Braid" in ours_engine
        assert "Braid" not in sparks_engine


def engines(settings: Settings, view: View) -> set[str]:
    """Who made the commits of a tail that brought new rows; a fold and a heartbeat bring none."""
    files = sorted(Path(tables_of(settings, view).tail, "_delta_log").glob("*.json"))
    commits = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    return {
        str(actions[0]["commitInfo"]["engineInfo"])
        for actions in commits
        if any(action.get("add", {}).get("dataChange") for action in actions)
    }


def test_views_that_are_computed_by_one_job_get_what_each_gets_alone(
    spark: Any, settings: Settings, tmp_path: Path
) -> None:
    country = tmp_path / "country.csv"
    country.write_text("host,country\nh1,DE\nh2,FR\n")
    by_country = View(
        name="by_country", source=requests, keys=("country",), measures={"hits": count()},
        enrich=Lookup(table=str(country), on="host", columns=("country",)),
    )  # fmt: skip
    views = (traffic, visits, by_country)
    feed = Feed(spark, Log(requests, settings))
    feed.commit(some(20, 0), 0)
    run_once(spark, settings, *views)
    writers: list[Any] = [job_of(spark, settings, view).tail_writer for view in views]
    begun = newest_version(feed.log.table) or 0
    for minute in (1, 2):
        feed.commit(some(30, minute), minute)
    commits = list(transactions(feed.log.table, begun + 1))
    together = live.LiveReader()(writers, commits)
    for writer, read in zip(writers, together, strict=True):
        (alone,) = live.LiveReader()([writer], commits)
        assert not isinstance(read, Exception)
        assert not isinstance(alone, Exception)
        assert read.states is not None
        assert alone.states is not None
        assert Counter(map(str, read.states.to_pylist())) == Counter(map(str, alone.states.to_pylist()))
        assert len(read.states) > 0


def test_a_kept_plan_reads_the_next_files_and_gives_what_a_new_one_gives(
    spark: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Feed(spark, Log(requests, settings))
    feed.commit(some(20, 0), 0)
    run_once(spark, settings, traffic, visits)
    writers: list[Any] = [job_of(spark, settings, view).tail_writer for view in (traffic, visits)]
    reader = live.LiveReader()

    def next_commit(minute: int) -> list[Any]:
        feed.commit(some(10 * minute, minute), minute)
        return [transaction(feed.log.table, newest_version(feed.log.table) or 0)]

    reader(writers, next_commit(1))
    for minute in (2, 3):
        news = next_commit(minute)
        anew = live.LiveReader()(writers, news)
        with monkeypatch.context() as patch:
            patch.setattr(live, "_prepared", None)
            again = reader(writers, news)
        for one, other in zip(again, anew, strict=True):
            assert isinstance(one, LiveBatch)
            assert isinstance(other, LiveBatch)
            assert one.states is not None
            assert other.states is not None
            assert Counter(map(str, one.states.to_pylist())) == Counter(map(str, other.states.to_pylist()))
            assert len(one.states) > 0


def job_of(spark: Any, settings: Settings, view: View) -> StreamJob:
    """A stream that has begun, and is told by the test what to read next."""
    from braid.deploy import store as deployment

    version = deployment.load(settings, view.name).active
    assert version is not None
    job = StreamJob(spark, settings, lambda: NOON + timedelta(days=3), version=version)
    job.start(once=True)
    assert job.follower is not None
    job.follower.join()
    return job


def test_only_the_view_that_fails_is_left_out_of_a_job(spark: Any, settings: Settings) -> None:
    breaks = replace(traffic, name="breaks", where="if(bytes = 7, raise_error('no good'), true)")
    views = (traffic, breaks, visits)
    feed = Feed(spark, Log(requests, settings))
    feed.commit([], 0)
    run_once(spark, settings, *views)
    writers: list[Any] = [job_of(spark, settings, view).tail_writer for view in views]
    feed.commit([one | {"bytes": 7} for one in some(5, 1)], 1)
    news: list[Any] = [transaction(feed.log.table, newest_version(feed.log.table) or 0)]
    read = live.LiveReader()(writers, news)
    assert [isinstance(one, Exception) for one in read] == [False, True, False]
    assert "no good" in str(read[1])


def test_a_tail_has_checkpoints_of_its_log_and_spark_goes_on_from_them(
    spark: Any, settings: Settings
) -> None:
    feed = Feed(spark, Log(requests, settings))
    feed.commit(some(20, 0), 0)
    run_once(spark, settings, traffic)
    for minute in (1, 2, 3):
        feed.commit(some(20, minute), minute)
        run_once(spark, settings, traffic)
    tail = tables_of(settings, traffic).tail
    job = job_of(spark, settings, traffic)
    appending: Any = job.tail_writer._appending  # type: ignore[union-attr]
    appending.checkpoint_every = 3
    before = tail_rows(spark, settings, traffic)
    appending.tend()
    assert Path(tail, f"_delta_log/{appending.version:020d}.checkpoint.parquet").exists()
    for version in range(appending.version):
        Path(tail, f"_delta_log/{version:020d}.json").unlink()
        Path(tail, f"_delta_log/.{version:020d}.json.crc").unlink(missing_ok=True)
    spark.newSession()
    assert tail_rows(spark, settings, traffic) == before
    table = open_table(tail)
    assert table is not None
    assert table.metadata().configuration["delta.checkpointInterval"] == "300"
    feed.commit(some(20, 4), 4)
    feed.beat(5)
    run_once(spark, settings, traffic)
    assert served(spark, traffic, tables_of(settings, traffic)) == recomputed(spark, traffic, settings)


def test_streams_that_run_read_a_log_together_and_a_new_view_joins_them(
    spark: Any, settings: Settings
) -> None:
    from braid.deploy import store as deployment

    views, stop = (traffic, replace(traffic, name="again")), threading.Event()
    feed = Feed(spark, Log(requests, settings))
    feed.commit(some(5, 0), 0)
    running = threading.Thread(target=stream, args=(spark, views, settings), kwargs={"stop": stop})
    running.start()
    try:
        until(lambda: are_together(settings, *views))
        feed.commit(some(20, 1), 1)
        with deployment.changing(settings, visits.name) as draft:
            draft.value = deployment.deployed(draft.value, visits, NOON)
        until(lambda: are_together(settings, *views, visits))
        for minute in (2, 3):
            feed.commit(some(20, minute), minute)
        until(lambda: all(in_step(spark, settings, view) for view in (*views, visits)))
        assert are_together(settings, *views, visits)
    finally:
        stop.set()
        running.join()


def are_together(settings: Settings, *views: View) -> bool:
    """Whether their streams run, and one thread reads their log for all of them."""
    threads = {thread.name for thread in threading.enumerate()}
    running = {
        one.view for process in read_all(settings) for one in process.queries if one.state == "running"
    }
    alone = {f"stream {view.name} v1" for view in views}
    return (
        "streams of requests" in threads and not threads & alone and {view.name for view in views} <= running
    )


def in_step(spark: Any, settings: Settings, view: View) -> bool:
    return served(spark, view, tables_of(settings, view)) == recomputed(spark, view, settings)
