"""Every command that compares says the same of one log: copies beyond the horizon count once, lookups as at the cut."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from braid.define.loading import load_definitions
from braid.deploy import store as deployment
from braid.log.table import Log
from braid.recompute import truth
from braid.runtime.settings import Settings, current_settings
from tests.conftest import Answer
from tests.streams import NOON, Feed, served, tables_of

DEFINITIONS = """
from braid import Lookup, Source, View, count, sum_, tumbling
requests = Source(
    name="requests", kafka_topic="requests", schema="id string, time timestamp, url string, bytes bigint",
    event_time="time", event_id="id",
)
by_section = View(
    name="by_section", source=requests, keys=("section",), window=tumbling("1 day"), where="bytes < {limit}",
    enrich=(Lookup(table={table!r}, on="url", columns=("section",)),),
    measures={{"hits": count(), "bytes": sum_("bytes")}},
)
"""
DAY = date(2026, 2, 27)
MIDNIGHT = datetime(2026, 2, 27, tzinfo=UTC)


@pytest.fixture
def pages(tmp_path: Path) -> str:
    return str(tmp_path / "pages")


@pytest.fixture
def define(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: str) -> Callable[[int], None]:
    file = tmp_path / "definitions.py"
    monkeypatch.setenv("BRAID_DEFINITIONS", str(file))
    monkeypatch.setenv("BRAID_SPARK_MASTER", "local[2]")

    def write(limit: int) -> None:
        file.write_text(DEFINITIONS.format(limit=limit, table=pages))

    return write


def name_sections(spark: Any, pages: str, section: str) -> None:
    rows = spark.sql(f"select '/1' as url, '{section}' as section")
    rows.write.format("delta").mode("overwrite").save(pages)


def events(*numbers: int, arrival: datetime = NOON) -> list[dict[str, Any]]:
    """Events of a day that are told apart by their numbers; the same number is the same event."""
    return [
        {
            "id": f"e{n}", "time": MIDNIGHT + timedelta(minutes=n), "url": f"/{n % 3}", "bytes": 10 + n,
            "_arrival": arrival,
        }
        for n in numbers
    ]  # fmt: skip


def naive(rows: list[dict[str, Any]], sections: dict[str, str]) -> Counter[Any]:
    """What the view must say: plain Python, every event id once."""
    hits: Counter[Any] = Counter()
    size: Counter[Any] = Counter()
    for event in {event["id"]: event for event in rows}.values():
        section = sections.get(event["url"])
        hits[section] += 1
        size[section] += event["bytes"]
    pane = MIDNIGHT.replace(tzinfo=None)
    return Counter((DAY, pane, section, n, n, size[section]) for section, n in hits.items())


@pytest.mark.usefixtures("home")
def test_all_comparisons_agree_on_copies_beyond_the_horizon_and_a_lookup_that_changed(
    spark: Any, braid: Callable[..., Answer], define: Callable[[int], None], pages: str
) -> None:
    define(1000)
    settings = current_settings()
    view = load_definitions(settings.definitions).view("by_section")
    name_sections(spark, pages, "old")
    feed = Feed(spark, Log(view.source, settings))
    logged = [events(*range(12)), events(3, 4, arrival=NOON + timedelta(hours=2))]
    for minute, part in enumerate(logged):
        feed.commit(part, minute)
    feed.beat(3)
    assert braid("stream", "--once").code == 0
    assert braid("batch", "run").code == 0
    # The epochs of this log are of the past: at its cut the table named the old section.
    name_sections(spark, pages, "new")
    assert braid("kappa", "replay", "by_section").code == 0

    right = naive([event for part in logged for event in part], {"/1": "old"})
    cut = NOON + timedelta(minutes=2)
    assert rows_of(settings, spark, 1) == right, "what is published"
    assert states(view, truth(spark, settings, view, cut)) == right, "what everything is compared with"
    replayed = rows_of(settings, spark, 2)
    assert Counter({row[2]: row[3] for row in replayed}) == {None: 9, "new": 5}

    published = braid("batch", "compare", "--json")
    assert published.code == 0, published.err
    assert [(one["groups"], one["equal"]) for one in json.loads(published.out)] == [(2, 2)]
    explained = json.loads(braid("compare", "by_section", "--json").out)
    assert verdicts(explained["comparisons"][0]) == (2, 2, 0, 0, 0)

    judged = braid("kappa", "compare", "by_section", "--json")
    assert judged.code == 1
    against_log, against_active = json.loads(judged.out)["parities"]
    # The active version is what the batch layer published, so both comparisons are with the same numbers.
    assert verdicts(against_log) == verdicts(against_active) == (3, 0, 1, 1, 1)
    assert against_log["as_streamed"]
    against = braid("compare", "by_section", "--against", "active", "--json")
    assert against.code == 1
    assert verdicts(json.loads(against.out)) == verdicts(against_log)
    by_number = json.loads(braid("compare", "by_section", "--against", "2", "--json").out)
    assert (by_number["version"], by_number["against"], verdicts(by_number)) == (
        1,
        "v2",
        verdicts(against_log),
    )
    (of_candidate,) = json.loads(braid("compare", "by_section", "--version", "2", "--json").out)[
        "comparisons"
    ]
    assert verdicts(of_candidate) == verdicts(against_log)
    assert {cause["name"] for cause in of_candidate["causes"]} == {
        "duplicate beyond the horizon",
        "lookup changed",
    }

    refused = braid("kappa", "promote", "by_section")
    assert refused.code == 1
    assert (
        "differs from a batch recompute of the log: of 3 groups 1 different, 1 missing, 1 extra"
        in refused.err
    )
    active = deployment.load(settings, "by_section").active
    assert active is not None
    assert active.number == 1


@pytest.mark.usefixtures("home")
def test_a_changed_definition_is_applied_although_a_stream_counts_copies(
    spark: Any, braid: Callable[..., Answer], define: Callable[[int], None], pages: str
) -> None:
    define(1000)
    settings = current_settings()
    name_sections(spark, pages, "old")
    view = load_definitions(settings.definitions).view("by_section")
    feed = Feed(spark, Log(view.source, settings))
    feed.commit(events(*range(6)), 0)
    feed.commit(events(1, arrival=NOON + timedelta(hours=2)), 1)
    feed.beat(3)
    assert braid("apply").code == 0
    define(14)
    applied = braid("apply")
    assert applied.code == 0, applied.err
    deployed = deployment.load(settings, "by_section")
    assert deployed.active is not None
    assert deployed.active.number == 2
    assert "a stream reads them so" in str(deployed.history[-1].because)


def verdicts(found: dict[str, Any]) -> tuple[int, ...]:
    names = ("groups", "equal", "different", "missing", "extra")
    return tuple(found[name] for name in names)


def rows_of(settings: Settings, spark: Any, number: int) -> Counter[Any]:
    view = deployment.load(settings, "by_section").version(number).view
    return served(spark, view, tables_of(settings, view, number), NOON + timedelta(minutes=2))


def states(view: Any, found: Any) -> Counter[Any]:
    from tests import streams

    return streams.rows_of(view, found)
