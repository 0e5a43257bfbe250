"""What is served against a recompute of the log: every difference is found, measured, and explained by evidence."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from batch_layer.run import run
from batch_layer.tasks import Asked
from braid import (
    Lookup,
    View,
    count,
    tumbling,
)
from braid.deploy import store as deployment
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.delta_rs import open_table, pin
from braid.tables.spark_tables import pinned
from serving_layer.accuracy.explain.compare import CompareOptions, compare
from serving_layer.accuracy.report.history import accuracy_summary
from serving_layer.accuracy.report.values import Comparison, Report
from tests.accuracy import requests, traffic, visits
from tests.conftest import Answer
from tests.streams import MINUTE, NOON, Feed, run_once, tables_of

DAY, NEXT = date(2026, 2, 27), date(2026, 2, 28)
HOUR = timedelta(hours=1)


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home), spark_master="local[2]", kafka_bootstrap="127.0.0.1:1")


@pytest.fixture
def feed(spark: Any, settings: Settings) -> Feed:
    return Feed(spark, Log(requests, settings))


@pytest.fixture
def define(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def write(text: str) -> None:
        (tmp_path / "definitions.py").write_text(text)
        monkeypatch.setenv("BRAID_DEFINITIONS", str(tmp_path / "definitions.py"))

    return write


def events(day: date, *numbers: int, **more: Any) -> list[dict[str, Any]]:
    """Events of a day that are told apart by their numbers."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return [
        {
            "id": f"{day}-{n}", "time": start + timedelta(minutes=7 * n), "host": f"h{n % 3}", "url": f"/{n % 4}",
            "bytes": 10 + n, "seconds": 0.1 * n,
        } | more
        for n in numbers
    ]  # fmt: skip


def begin(feed: Feed, spark: Any, settings: Settings, *views: View) -> None:
    """What is in the log when a stream is deployed is history and folded at once; what follows stays in its tail."""
    feed.commit(events(DAY - timedelta(days=1), 0), 0)
    feed.beat(1)
    run_once(spark, settings, *views)


def compared(spark: Any, settings: Settings, view: View, **asked: Any) -> Report:
    active = deployment.load(settings, view.name).active
    assert active is not None
    return compare(spark, settings, view, active, CompareOptions(**asked))


def causes(found: Comparison) -> dict[str, tuple[int, int]]:
    return {cause.name: (cause.groups, cause.events) for cause in found.causes}


def test_an_event_with_several_elements_and_a_copy_of_it_are_compared_element_by_element(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    """Ingest let a copy pass: the stream counts its three elements twice, and the batch once."""
    words = replace(
        traffic, name="words", each={"word": "split(url, '-')"}, keys=("word",), measures={"hits": count()}
    )
    begin(feed, spark, settings, words)
    feed.commit(events(DAY, 1, url="a-b-c"), 2)
    feed.commit(events(DAY, 1, url="a-b-c") + events(DAY, 2, url="a"), 3)
    feed.beat(4)
    run_once(spark, settings, words)
    report = compared(spark, settings, words, first=DAY, last=DAY)
    (found,) = report.comparisons
    assert (found.groups, found.different, found.events, found.twice) == (3, 3, 4, 3)
    assert found.unexplained == 0
    assert report.what_if.classic_lambda.events == 4


@pytest.mark.soak
def test_a_stream_without_copies_equals_the_batch_in_every_number(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    for minute in range(3):
        feed.commit(events(DAY, *range(minute, 60, 3)) + events(NEXT, *range(minute, 30, 3)), minute)
    feed.beat(5)
    run_once(spark, settings, traffic, visits)
    for view in (traffic, visits):
        report = compared(spark, settings, view)
        (found,) = report.comparisons
        assert found.holds
        assert found.groups == found.equal > 5
        assert {one.name: (one.equal, one.largest_relative) for one in found.numbers}["events"] == (
            found.groups,
            0.0,
        )
        assert all(one.equal == found.groups for one in found.numbers)
        assert "sketch error within its bound" in causes(found)
        assert [day.day for day in found.days] == [DAY, NEXT]
        assert report.completeness.all.events == found.events
        assert (report.braid.lost, report.braid.twice) == (0, 0)


def test_copies_that_ingest_let_pass_are_counted_by_kind_and_a_view_can_forbid_them(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    first = events(DAY, *range(20)) + events(NEXT, *range(20))
    feed.commit(first, 0)
    feed.commit(events(DAY, 1, 2, _arrival=NOON + 2 * HOUR) + events(DAY, 3, _arrival=NOON + MINUTE), 2)
    # A mended record of the quarantine, whose event had come in the meantime.
    feed.commit(events(NEXT, 4, _partition=-1, _arrival=NOON + 5 * HOUR), 4)
    feed.beat(6)
    run_once(spark, settings, traffic)
    report = compared(spark, settings, replace(traffic, accuracy={"hits": 0.1, "hosts": 0}))
    (found,) = report.comparisons
    shown = causes(found)
    assert shown["duplicate beyond the horizon"] == (2, 2)
    assert shown["duplicate within the horizon"] == (1, 1)
    assert shown["record requeued"] == (1, 1)
    assert (found.unexplained, found.lost, found.twice) == (0, 0, 4)
    assert found.groups - found.equal == found.different == 4
    hits = next(one for one in found.numbers if one.name == "hits")
    assert (hits.different, hits.largest_absolute) == (4, 1.0)
    assert hits.mean_absolute == pytest.approx(4 / found.groups)
    hosts = next(one for one in found.numbers if one.name == "hosts")
    assert (hosts.equal, hosts.largest_relative) == (found.groups, 0.0)
    assert {day.day: day.exceeded for day in found.days} == {DAY: ("hits",), NEXT: ("hits",)}
    assert not report.holds
    assert (report.log.accepted, report.log.copies) == (44, 4)


@pytest.mark.soak
def test_a_published_day_is_right_and_the_stream_alone_is_judged_until_its_rows_are_collected(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    view = replace(traffic, mode="lambda", measures={"hits": count()})
    begin(feed, spark, settings, view)
    feed.commit(events(DAY, *range(20)), 2)
    feed.commit(events(DAY, 1, 2, _arrival=NOON + 2 * HOUR), 3)
    feed.beat(5)
    run_once(spark, settings, view)
    run(lambda: spark, settings, [view], Asked())
    feed.commit(events(DAY, 3, _arrival=NOON + 2 * HOUR), 6)
    feed.beat(8)
    published, alone = compared(spark, settings, view, first=DAY, cut=NOON + 4 * MINUTE).comparisons
    assert (published.side, published.equal) == ("served", published.groups)
    assert (alone.side, causes(alone)) == ("stream alone", {"duplicate beyond the horizon": (2, 2)})
    run_once(spark, settings, view)
    (after,) = compared(spark, settings, view, first=DAY).comparisons
    # What came after the publish is in the tail, which counts it.
    assert causes(after) == {"duplicate beyond the horizon": (1, 1)}
    assert after.holds


@pytest.mark.soak
def test_numbers_of_another_definition_or_another_lookup_are_explained_by_it(
    spark: Any, settings: Settings, feed: Feed, tmp_path: Path
) -> None:
    table = str(tmp_path / "pages")
    write_sections(spark, table, "old")
    by_section = View(
        name="by_section", source=requests, keys=("section",), window=tumbling("1 day"), mode="kappa",
        enrich=(Lookup(table=table, on="url", columns=("section",)),), measures={"hits": count()},
    )  # fmt: skip
    feed.commit(events(DAY, 1, 5, 9), 0)
    feed.beat(1)
    run_once(spark, settings, by_section)
    write_sections(spark, table, "new")
    # Of the same epoch as the heartbeat: the stream reads it with the new table.
    feed.commit(events(DAY, 13, 17), 1)
    feed.beat(3)
    run_once(spark, settings, by_section)
    epochs_from_now = (datetime.now(UTC) - NOON) // MINUTE + 5
    feed.beat(epochs_from_now)
    run_once(spark, settings, by_section)
    (found,) = compared(spark, settings, by_section).comparisons
    assert causes(found) == {"lookup changed": (2, 6)}
    assert found.holds
    changed = replace(by_section, where="bytes > 12")
    (found,) = compared(spark, settings, changed).comparisons
    assert set(causes(found)) == {"lookup changed", "definition changed"}
    assert found.holds


def write_sections(spark: Any, table: str, section: str) -> None:
    rows = spark.sql(f"select '/1' as url, '{section}' as section")
    rows.write.format("delta").mode("overwrite").save(table)


def test_an_epoch_that_is_counted_twice_is_found_and_its_events_are_named(
    spark: Any, settings: Settings, feed: Feed, braid: Callable[..., Answer], define: Callable[[str], None]
) -> None:
    begin(feed, spark, settings, traffic, visits)
    for minute in range(3):
        feed.commit(events(DAY, *range(minute, 30, 3)), minute + 2)
    feed.beat(6)
    run_once(spark, settings, traffic, visits)
    count_twice(spark, settings, traffic, NOON + 3 * MINUTE)
    define("from tests.accuracy import traffic, visits")
    failed = braid("compare", "traffic", "--json")
    assert failed.code == 1
    found = json.loads(failed.out)["comparisons"][0]
    assert (found["unexplained"], found["twice"]) == (10, 10)
    example = found["counterexample"]
    assert example["served"]["hits"] == example["right"]["hits"] + 1
    suspects = [event for event in example["events"] if event["suspect"]]
    assert [event["epoch"] for event in suspects] == [(NOON + 3 * MINUTE).isoformat()]
    assert suspects[0]["partition"] == 0
    assert 20_000 <= suspects[0]["offset"] < 20_010
    told = braid("compare", "traffic")
    assert told.code == 1
    assert "have no explanation in the log" in told.err
    assert str(suspects[0]["offset"]) in told.out
    kept = json.loads(braid("compare", "traffic", "--history", "--json").out)
    assert [(one["unexplained"], one["holds"]) for one in kept] == [(10, False)] * 2
    page = settings.location("report.html")
    right = braid("compare", "visits", "--html", page)
    assert right.code == 0, right.err
    assert "<svg" in Path(page).read_text()
    summary = accuracy_summary(settings, "visits")
    assert [(day["day"], day["share"]) for day in summary["days"]][1:] == [(DAY.isoformat(), 1.0)]


def count_twice(spark: Any, settings: Settings, view: View, epoch: datetime) -> None:
    """The fault: a batch whose rows are there two times, as a writer without its exactly-once would leave them."""
    from pyspark.sql import functions as F

    tables = tables_of(settings, view)
    table = open_table(tables.tail)
    assert table is not None
    mark = pin(table).mark()
    assert mark is not None
    again = pinned(spark, tables.tail).where(F.col("epoch") == F.lit(epoch))
    again.write.format("delta").mode("append").option("userMetadata", mark.to_json()).save(tables.tail)
