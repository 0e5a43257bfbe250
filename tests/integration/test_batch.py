"""The batch layer publishes days that are exact up to their cut; with the tail beyond it every event counts once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import batch_layer.run as running
from batch_layer.accuracy import compare
from batch_layer.arrivals import closed_epoch
from batch_layer.days import read_day
from batch_layer.plan import Days, lambda_views, plan
from batch_layer.release import release
from batch_layer.run import run
from batch_layer.tasks import Asked, DayResult
from braid import Lookup, Quarantined, Source, View, count, mean, session, stddev, sum_, tumbling
from braid.errors import BraidError
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.delta_log import newest_version
from braid.tables.spark_tables import pinned
from tests.lineage import kinds, required, told_in
from tests.streams import MINUTE, NOON, Feed, run_once, served, tables_of

requests = Source(
    name="requests", kafka_topic="requests",
    schema="id string, time timestamp, host string, url string, bytes bigint", event_time="time", event_id="id",
)  # fmt: skip
traffic = View(
    name="traffic", source=requests, keys=("url",), window=tumbling("1 hour"),
    measures={"hits": count(), "bytes": sum_("bytes")},
)  # fmt: skip
visits = View(
    name="visits", source=requests, keys=("host",), window=session(gap="30 minutes"),
    measures={"bytes": sum_("bytes")},
)  # fmt: skip
FIRST, SECOND = date(2026, 2, 27), date(2026, 2, 28)


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home), spark_master="local[2]", kafka_bootstrap="127.0.0.1:1")


@pytest.fixture
def feed(spark: Any, settings: Settings) -> Feed:
    return Feed(spark, Log(requests, settings))


def events(day: date, *numbers: int) -> list[dict[str, Any]]:
    """Events of a day that are told apart by their numbers."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return [
        {
            "id": f"{day}-{n}", "time": start + timedelta(minutes=7 * n), "host": f"h{n % 3}", "url": f"/{n % 4}",
            "bytes": 10 + n,
        }
        for n in numbers
    ]  # fmt: skip


def truth(*given: Sequence[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """What `traffic` must say of events, each counted once."""
    hits: Counter[Any] = Counter()
    size: Counter[Any] = Counter()
    for event in {event["id"]: event for part in given for event in part}.values():
        group = (event["time"].date(), event["time"].replace(minute=0), event["url"])
        hits[group] += 1
        size[group] += event["bytes"]
    return Counter(
        (day, pane.replace(tzinfo=None), url, n, n, size[day, pane, url])
        for (day, pane, url), n in hits.items()
    )


def outcomes(results: list[DayResult]) -> dict[tuple[str, date], str]:
    return {(result.view, result.day): result.outcome for result in results}


def numbers(spark: Any, settings: Settings) -> Counter[Any]:
    return served(spark, traffic, tables_of(settings, traffic))


def test_days_are_published_exactly_with_every_event_id_once(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    first, second = events(FIRST, *range(40)), events(SECOND, *range(30))
    feed.commit(first + second, 0)
    # Copies that came hours later, beyond what ingest remembers.
    feed.commit(first[:5] + second[:1], 3)
    feed.beat(5)
    results = run(lambda: spark, settings, [traffic, visits], Asked())
    assert set(outcomes(results).values()) == {"published"}
    assert {(r.view, r.day): (r.events, r.duplicates) for r in results if r.view == "traffic"} == {
        ("traffic", FIRST): (40, 5),
        ("traffic", SECOND): (30, 1),
    }
    assert numbers(spark, settings) == truth(first, second)
    assert all(parity.holds for parity in compare(spark, settings, [traffic, visits]))
    assert run(lambda: spark, settings, [traffic, visits], Asked()) == []
    _a_run_that_fails_is_told(settings)


def _a_run_that_fails_is_told(settings: Settings) -> None:
    def broken() -> Any:
        raise BraidError("Spark does not start")

    told = settings.model_copy(update={"lineage": settings.location("lineage.jsonl")})
    with pytest.raises(BraidError, match="Spark does not start"):
        run(broken, told, [traffic], Asked(force=True))
    start, end = told_in(told.lineage)
    assert kinds([start, end]) == [("batch.traffic", "START"), ("batch.traffic", "FAIL")]
    assert end["run"]["facets"]["errorMessage"]["message"] == "Spark does not start"
    required(end)


def test_the_same_cut_gives_the_same_table_and_an_earlier_one_takes_nothing_back(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    feed.commit(events(FIRST, *range(20)), 0)
    feed.commit(events(FIRST, *range(20, 25)), 2)
    feed.beat(4)
    earlier, later = NOON + MINUTE, NOON + 2 * MINUTE
    asked = Asked(Days(FIRST, FIRST), earlier)
    run(lambda: spark, settings, [traffic], asked)
    before = pinned(spark, tables_of(settings, traffic).base).orderBy("pane", "url").collect()
    run(lambda: spark, settings, [traffic], replace(asked, force=True))
    assert pinned(spark, tables_of(settings, traffic).base).orderBy("pane", "url").collect() == before
    run(lambda: spark, settings, [traffic], Asked(Days(FIRST, FIRST), later))
    assert numbers(spark, settings) == truth(events(FIRST, *range(25)))
    (back,) = run(lambda: spark, settings, [traffic], asked)
    assert (back.outcome, back.cut) == ("up to date", later)
    run(lambda: spark, settings, [traffic], replace(asked, force=True))
    assert numbers(spark, settings) == truth(events(FIRST, *range(25)))


@pytest.mark.parametrize("stream_first", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_late_events_make_a_day_stale_and_the_served_number_is_right_before_during_and_after(
    spark: Any, settings: Settings, feed: Feed, stream_first: bool
) -> None:
    early, late = events(FIRST, *range(30)), events(FIRST, *range(30, 37))
    feed.commit(early, 0)
    feed.beat(2)
    if stream_first:
        run_once(spark, settings, traffic)
        assert numbers(spark, settings) == truth(early)
    run(lambda: spark, settings, [traffic], Asked())
    assert numbers(spark, settings) == truth(early)
    run_once(spark, settings, traffic)
    assert numbers(spark, settings) == truth(early)
    feed.commit(late, 4)
    feed.beat(6)
    (day,) = plan(settings, [traffic])[0].days
    assert (day.state, day.beyond, day.since) == ("stale", 7, NOON + 4 * MINUTE)
    run_once(spark, settings, traffic)
    assert numbers(spark, settings) == truth(early, late)
    (result,) = run(lambda: spark, settings, [traffic], Asked(stale=True))
    assert result.outcome == "published"
    # The tail still has the rows that the base covers now, until its stream collects them.
    assert numbers(spark, settings) == truth(early, late)
    run_once(spark, settings, traffic)
    assert numbers(spark, settings) == truth(early, late)
    assert [day.state for day in plan(settings, [traffic])[0].days] == ["up to date"]


def test_a_publish_says_how_right_the_stream_was(spark: Any, settings: Settings, feed: Feed) -> None:
    first, second = events(FIRST, *range(12)), events(SECOND, *range(12))
    feed.commit(first + second, 0)
    feed.commit(second[:1], 2)
    feed.beat(4)
    run_once(spark, settings, traffic)
    run(lambda: spark, settings, [traffic], Asked())
    right, wrong = (read_day(tables_of(settings, traffic), day).publish for day in (FIRST, SECOND))
    assert right is not None
    assert right.accuracy is not None
    assert right.accuracy.share == 1
    assert wrong is not None
    assert wrong.accuracy is not None
    assert wrong.accuracy.groups - wrong.accuracy.equal == 1
    assert wrong.accuracy.largest_error > 0.2


@pytest.mark.parametrize("most_here", [running.MOST_HERE, -1], ids=["by the driver", "by Spark"])
def test_a_day_without_events_is_published_too(
    spark: Any, settings: Settings, feed: Feed, most_here: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MOST_HERE", most_here)
    # Parts of the states of these are never null.
    spread = replace(traffic, measures={"hits": count(), "mean": mean("bytes"), "spread": stddev("bytes")})
    feed.commit(events(FIRST, 1, 2), 0)
    feed.beat(2)
    results = run(lambda: spark, settings, [spread], Asked(Days(FIRST, SECOND)))
    assert [(one.outcome, one.events, one.rows) for one in results] == [
        ("published", 2, 2),
        ("published", 0, 0),
    ]
    rows = pinned(spark, tables_of(settings, spread).base).where(f"day = date'{SECOND}'").collect()
    assert [row.pane for row in rows] == [None]
    assert outcomes(run(lambda: spark, settings, [spread], Asked(Days(SECOND, SECOND)))) == {
        ("traffic", SECOND): "up to date"
    }
    assert {row[0] for row in served(spark, spread, tables_of(settings, spread))} == {FIRST}


def test_a_cut_that_is_not_closed_is_refused(spark: Any, settings: Settings, feed: Feed) -> None:
    feed.commit(events(FIRST, 1), 3)
    assert closed_epoch(feed.log) == NOON + 2 * MINUTE
    with pytest.raises(
        BraidError, match=r"2026-03-01T12:03:00\+00:00 is not closed .* up to 2026-03-01T12:02:00"
    ):
        run(lambda: spark, settings, [traffic], Asked(cut=NOON + 3 * MINUTE))


def test_views_of_streams_alone_have_no_batch() -> None:
    alone = replace(traffic, name="alone", mode="kappa")
    assert lambda_views([traffic, alone]) == [traffic]
    with pytest.raises(BraidError, match="braid kappa replay alone"):
        lambda_views([traffic, alone], ["alone"])


def test_a_held_day_leaves_the_old_version_in_service_until_a_person_releases_it(
    spark: Any, settings: Settings, feed: Feed
) -> None:
    strict = replace(traffic, source=replace(requests, expect=(Quarantined(at_most=0.2),)))
    good, more = events(FIRST, *range(10)), events(FIRST, *range(10, 16))
    feed.commit(good, 0)
    feed.beat(1)
    run(lambda: spark, settings, [strict], Asked())
    feed.commit([*more, *rejected(8)], 2)
    feed.beat(4)
    (held,) = run(lambda: spark, settings, [strict], Asked())
    assert held.outcome == "held"
    assert "quarantined" in held.reason
    assert numbers(spark, settings) == truth(good)
    (day,) = plan(settings, [strict], Days(FIRST, FIRST))[0].days
    assert (day.state, day.is_due) == ("held", False)
    assert run(lambda: spark, settings, [strict], Asked()) == []
    with pytest.raises(BraidError, match="the reason is empty"):
        release(lambda: spark, settings, [strict], FIRST, " ")
    (done,) = release(lambda: spark, settings, [strict], FIRST, "the sender was mended")
    assert done.outcome == "published"
    assert numbers(spark, settings) == truth(good, more)
    gate = read_day(tables_of(settings, traffic), FIRST).gate
    assert gate is not None
    assert gate.released is not None
    assert gate.released.because == "the sender was mended"
    with pytest.raises(BraidError, match="no gate holds"):
        release(lambda: spark, settings, [strict], FIRST, "again")


def test_a_lookup_is_read_as_it_was_at_the_cut(
    spark: Any, settings: Settings, feed: Feed, tmp_path: Path
) -> None:
    table = str(tmp_path / "pages")
    spark.sql("select '/1' as url, 'old' as section").write.format("delta").save(table)
    by_section = View(
        name="by_section", source=requests, keys=("section",), window=tumbling("1 day"),
        enrich=(Lookup(table=table, on="url", columns=("section",)),), measures={"hits": count()},
    )  # fmt: skip
    feed.commit(events(FIRST, 1, 5), 0)
    feed.beat(2)
    run(lambda: spark, settings, [by_section], Asked())
    spark.sql("select '/1' as url, 'new' as section").write.format("delta").mode("overwrite").save(table)
    run(lambda: spark, settings, [by_section], Asked(force=True))
    tables = tables_of(settings, by_section)
    assert [row.section for row in pinned(spark, tables.base).collect()] == ["old"]
    assert newest_version(table) == 1


def rejected(number: int) -> list[dict[str, Any]]:
    return [{"time": NOON, "_error": "unparsable: not one JSON object", "_raw": b"{"} for _ in range(number)]
