"""Many days in one run: the same tables as day by day, the right outcome for each day, and few jobs and commits."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from batch_layer import run as running
from batch_layer import tasks
from batch_layer.accuracy import accuracies, compare
from batch_layer.days import read_days
from batch_layer.gates import judge as judging
from batch_layer.plan import Days, plan
from batch_layer.run import run
from batch_layer.tasks import Asked, DayResult
from braid import (
    Quarantined,
    Source,
    View,
    approx_distinct,
    count,
    quantile,
    session,
    sliding,
    sum_,
    tumbling,
)
from braid.log.table import Log
from braid.merge import spark as merging
from braid.merge.spark import served_states
from braid.produce.weblog import Weblog, weblog
from braid.recompute import truth
from braid.runtime.settings import Settings
from braid.tables.commits import BaseCommit, described
from braid.tables.spark_tables import pinned
from tests.streams import MINUTE, NOON, Feed, rows_of, run_once, served, tables_of

FIRST = date(2025, 3, 1)
requests = Source(
    name="requests", kafka_topic="requests", event_time="time", event_id="id", timezone="Europe/Berlin",
    schema="id string, time timestamp, host string, url string, status int, bytes bigint",
    expect=(Quarantined(at_most=0.6),),
)  # fmt: skip
by_page = View(
    name="by_page", source=requests, keys=("url",), window=tumbling("1 hour"),
    measures={"hits": count(), "bytes": sum_("bytes"), "hosts": approx_distinct("host")},
)  # fmt: skip
visits = View(
    name="visits", source=requests, keys=("host",), window=session(gap="30 minutes"),
    measures={"bytes": sum_("bytes"), "p95": quantile("bytes", 0.95)},
)  # fmt: skip
by_status = View(
    name="by_status", source=requests, keys=("status",), window=sliding("1 hour", every="15 minutes"),
    measures={"hits": count()}, where="status < 500",
)  # fmt: skip
VIEWS = (by_page, visits, by_status)


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home), spark_master="local[2]", kafka_bootstrap="127.0.0.1:1")


def nasty(seed: int, days: int, events: int) -> Iterator[list[dict[str, Any]]]:
    """What the generator makes at its worst, as rows of the log, in portions of which each is an epoch."""
    options = Weblog(
        events=events, days=days, start=FIRST, seed=seed, late=0.3, duplicates=0.1, duplicates_far=0.1,
        malformed=0.05, out_of_order=0.3, timezone="Europe/Berlin",
    )  # fmt: skip
    rows: list[dict[str, Any]] = []
    for record in weblog(options):
        event = record.event
        if event is None or event.time_ms is None:
            rows.append({"time": NOON, "_error": "unparsable: not one JSON object", "_raw": b"{"})
        else:
            time = datetime.fromtimestamp(event.time_ms / 1000, UTC)
            rows.append(
                {name: getattr(event, name) for name in ("id", "host", "url", "status", "bytes")}
                | {"time": time}
            )
    size = len(rows) // 4 + 1
    for begin in range(0, len(rows), size):
        yield rows[begin : begin + size]


def fill(spark: Any, settings: Settings, portions: Sequence[list[dict[str, Any]]]) -> None:
    feed = Feed(spark, Log(requests, settings))
    for minute, rows in enumerate(portions):
        feed.commit(rows, minute)
    feed.beat(len(portions) + 1)


def whole(spark: Any, settings: Settings, view: View) -> tuple[Counter[Any], dict[Any, Any]]:
    """Everything that is in a base, and each day's cut."""
    base = pinned(spark, tables_of(settings, view).base)
    cuts = {row.day: row.through for row in base.select("day", "through").distinct().collect()}
    return rows_of(view, base), cuts


def said(settings: Settings, view: View) -> list[BaseCommit]:
    """What the commits to a base say, newest first."""
    return [one for _, one in described(tables_of(settings, view).base, BaseCommit.from_json)]


def outcomes(results: list[DayResult], view: View) -> dict[date, str]:
    return {result.day: result.outcome for result in results if result.view == view.name}


@pytest.mark.soak
def test_many_days_in_one_run_are_row_for_row_what_they_are_one_by_one_in_any_order(
    spark: Any, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small days are compared and written by this process, and large ones by Spark: one by one, both take turns."""
    alone = replace_home(settings, tmp_path / "alone")
    portions = list(nasty(seed=7, days=6, events=1_500))
    for one in (settings, alone):
        fill(spark, one, portions)
    last = FIRST + timedelta(days=6)
    together = run(lambda: spark, settings, VIEWS, Asked(Days(FIRST, last)))
    days = [FIRST + timedelta(days=n) for n in range(7)]
    random.Random(3).shuffle(days)
    singly = []
    for number, day in enumerate(days):
        monkeypatch.setattr(running, "MOST_HERE", running.MOST_HERE if number % 2 else 0)
        singly += run(lambda: spark, alone, VIEWS, Asked(Days(day, day)))
        monkeypatch.undo()

    def key(result: DayResult) -> tuple[str, date]:
        return result.view, result.day

    assert sorted(together, key=key) == sorted(singly, key=key)
    assert any(result.duplicates for result in together)
    for view in VIEWS:
        assert whole(spark, settings, view) == whole(spark, alone, view)
        assert len(said(settings, view)) == 1
        assert publishes(settings, view) == publishes(alone, view)


def test_what_was_served_is_the_same_whether_the_driver_reads_it_or_spark(
    spark: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some days are published and have late events, others are in the tail alone; each is read up to its own cut."""
    portions = list(nasty(seed=11, days=4, events=800))
    feed = Feed(spark, Log(requests, settings))
    for minute, rows in enumerate(portions[:2]):
        feed.commit(rows, minute)
    feed.beat(3)
    run_once(spark, settings, *VIEWS)
    run(lambda: spark, settings, VIEWS, Asked(Days(FIRST, FIRST + timedelta(days=1))))
    for minute, rows in enumerate(portions[2:], 4):
        feed.commit(rows, minute)
    feed.beat(7)
    run_once(spark, settings, *VIEWS)
    days = [FIRST + timedelta(days=n) for n in range(4)]
    cuts = dict(zip(days, (NOON + minute * MINUTE for minute in (6, 4, 2, 6)), strict=True))
    small = merging.SMALL
    for view in VIEWS:
        tables = tables_of(settings, view)
        found = []
        for most in (small, 0):
            monkeypatch.setattr(merging, "SMALL", most)
            found.append(rows_of(view, served_states(spark, view, tables, cuts)))
        assert found[0] == found[1]
        assert {row[0] for row in found[0]} == set(days)
        right = truth(spark, settings, view, days=cuts)
        ours, sparks = (accuracies(spark, view, tables, made, cuts) for made in (right.toArrow(), right))
        assert ours.keys() == sparks.keys() == set(days)
        for day, one in ours.items():
            assert one == replace(sparks[day], largest_error=pytest.approx(sparks[day].largest_error))
        assert any(one.share < 1 for one in ours.values())
        assert any(one.equal for one in ours.values())
        assert set(whole(spark, settings, view)[1]) >= set(days[:2])


def publishes(settings: Settings, view: View) -> dict[date, Any]:
    """What is recorded of each publish but for when it was."""
    records = read_days(tables_of(settings, view))
    return {day: replace(one.publish, at=NOON) for day, one in records.items() if one.publish}


def replace_home(settings: Settings, home: Path) -> Settings:
    return settings.model_copy(update={"home": str(home)})


def year(days: int = 365) -> list[dict[str, Any]]:
    """Three small events a day."""
    start = datetime(FIRST.year, FIRST.month, FIRST.day, 11, tzinfo=UTC)
    return [
        {
            "id": f"{day}-{n}", "time": start + timedelta(days=day, minutes=n), "host": f"h{n}", "url": f"/{n % 2}",
            "status": 200, "bytes": 10 * day + n,
        }
        for day in range(days)
        for n in range(3)
    ]  # fmt: skip


def test_a_year_with_a_held_day_stale_days_and_a_new_view_is_one_run_with_the_right_outcome_for_each(
    spark: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = replace(requests, expect=(Quarantined(at_most=0.2),))
    pages, news = replace(by_page, source=strict), replace(by_status, source=strict)
    feed = Feed(spark, Log(strict, settings))
    events = year()
    fresh = FIRST + timedelta(days=364)
    feed.commit([event for event in events if event["time"].date() < fresh], 0)
    feed.beat(2)
    assert set(outcomes(run(lambda: spark, settings, [pages], Asked()), pages).values()) == {"published"}
    cut = NOON + MINUTE
    (first,) = said(settings, pages)
    assert first.days == {FIRST + timedelta(days=n): cut for n in range(364)}

    stale, held = FIRST + timedelta(days=100), FIRST + timedelta(days=200)
    late = [
        event | {"id": f"late-{event['id']}"} for event in events if event["time"].date() in (stale, held)
    ]
    feed.commit([event for event in late if event["time"].date() == stale], 3)
    bad = [{"time": NOON, "_error": "unparsable: not one JSON object", "_raw": b"{"} for _ in range(9)]
    feed.commit([*(event for event in late if event["time"].date() == held), *bad], 4)
    feed.commit([event for event in events if event["time"].date() == fresh], 6)
    feed.beat(8)
    asked: list[int] = []
    validate = judging._validation
    monkeypatch.setattr(
        judging, "_validation", lambda gauges, bounds: asked.append(len(gauges)) or validate(gauges, bounds)
    )
    planned = {(day.view, day.day): day.state for day in plan(settings, [pages, news])[0].days}
    assert planned["by_page", stale] == planned["by_page", held] == "stale"
    assert planned["by_page", fresh] == planned["by_status", FIRST] == "never computed"
    results = run(lambda: spark, settings, [pages, news], Asked())
    assert outcomes(results, pages) == {stale: "published", held: "held", fresh: "published"}
    new = outcomes(results, news)
    assert new.pop(held) == "held"
    assert len(new) == 364
    assert set(new.values()) == {"published"}
    # All days of the source at once, then those of each view that were let in; views are judged side by side.
    assert asked[0] == 365
    assert sorted(asked[1:]) == [2, 364]
    second = said(settings, pages)[0]
    assert second.days == {stale: NOON + 7 * MINUTE, fresh: NOON + 7 * MINUTE}
    _, cuts = whole(spark, settings, pages)
    assert cuts[held] == cuts[FIRST] == cut.replace(tzinfo=None)
    assert held not in whole(spark, settings, news)[1]
    # Six events of the stale day, three of the fresh and of each other; of the held day what was there before.
    assert (
        sum(row[3] * times for row, times in served(spark, pages, tables_of(settings, pages)).items())
        == 3 * 365 + 3
    )
    documents = list(Path(tables_of(settings, news).folder, "days").iterdir())
    assert len(documents) == 1, "the records of a run are one document"


def test_a_run_has_as_many_jobs_and_commits_for_sixty_days_as_for_six(spark: Any, settings: Settings) -> None:
    feed = Feed(spark, Log(requests, settings))
    feed.commit(year(60), 0)
    feed.beat(2)
    run_once(spark, settings, by_page)

    def jobs(days: int) -> int:
        scheduler = spark.sparkContext._jsc.sc().dagScheduler()
        before = scheduler.numTotalJobs()
        run(
            lambda: spark,
            settings,
            [by_page],
            Asked(Days(FIRST, FIRST + timedelta(days=days - 1)), force=True),
        )
        return int(scheduler.numTotalJobs() - before)

    jobs(2)
    few, many = jobs(6), jobs(60)
    assert many <= few + 2
    assert len(said(settings, by_page)) == 4, "one of the stream, and one for each run"


def test_days_are_computed_in_portions_that_fit_and_a_larger_one_goes_alone(
    spark: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {FIRST + timedelta(days=n): size for n, size in enumerate((3, 4, 3, 20, 1, 1))}
    monkeypatch.setattr(tasks, "MOST_EVENTS", 7)
    packed = list(tasks.packed(sizes))
    assert [[sizes[day] for day in chunk] for chunk in packed] == [[3, 4], [3], [20], [1, 1]]
    assert [len(chunk) for chunk in tasks.packed(sizes, most_days=1)] == [1] * 6
    feed = Feed(spark, Log(requests, settings))
    feed.commit(year(5), 0)
    feed.beat(2)
    done: list[tuple[int, int]] = []
    results = run(
        lambda: spark, settings, [by_page], Asked(), watch=lambda n, total, what: done.append((n, total))
    )
    assert set(outcomes(results, by_page).values()) == {"published"}
    assert [len(one.days) for one in said(settings, by_page)] == [1, 2, 2]
    assert done == [(2, 5), (4, 5), (5, 5)]


def test_days_that_cover_different_cuts_are_computed_anew_each_up_to_its_own(
    spark: Any, settings: Settings
) -> None:
    """A day's cut never goes back: asked for an early one, each is computed up to what it covers."""
    feed = Feed(spark, Log(requests, settings))
    events = year(4)
    for minute in range(4):
        feed.commit([{**one, "id": f"{minute}-{one['id']}"} for one in events], 2 * minute)
    feed.beat(9)
    for number in range(4):
        day, cut = FIRST + timedelta(days=number), NOON + 2 * number * MINUTE
        run(lambda: spark, settings, [by_page], Asked(Days(day, day), cut))
    before = whole(spark, settings, by_page)
    assert len(set(before[1].values())) == 4
    run(lambda: spark, settings, [by_page], Asked(Days(FIRST, FIRST + timedelta(days=3)), NOON, force=True))
    assert whole(spark, settings, by_page) == before
    assert said(settings, by_page)[0].days == {
        FIRST + timedelta(days=number): NOON + 2 * number * MINUTE for number in range(4)
    }
    (parity,) = compare(spark, settings, [by_page])
    assert parity.holds, parity.says()
    assert parity.groups == len(before[0])
