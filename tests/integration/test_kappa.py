"""A changed definition: planned, replayed, compared and promoted while the old version answers, and rolled back."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from braid import parity
from braid.deploy import store as deployment
from braid.errors import NotYet
from braid.log.contents import create
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.delta_rs import rows_by_day
from speed_layer.promotion import judge
from speed_layer.stream.replay import replay
from tests.conftest import Answer
from tests.lineage import kinds, told_in
from tests.streams import MINUTE, NOON, Feed, requests, run_once, served, some, tables_of, traffic

DEFINITIONS = """
from dataclasses import replace
from tests import streams
traffic = replace(streams.traffic, where="bytes < {limit}"{more})
"""


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home), spark_master="local[2]", kafka_bootstrap="127.0.0.1:1")


@pytest.fixture
def define(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    file = tmp_path / "definitions.py"
    monkeypatch.setenv("BRAID_DEFINITIONS", str(file))

    def write(limit: int, more: str = "") -> None:
        file.write_text(DEFINITIONS.format(limit=limit, more=more))

    return write


def test_the_rows_of_each_day_are_known_from_the_log_of_the_table(spark: Any, settings: Settings) -> None:
    log = Log(requests, settings)
    assert rows_by_day(log.table) == {}
    create(spark, log)
    assert rows_by_day(log.table) == {}
    feed = Feed(spark, log)
    for minute in range(2):
        feed.commit(some(30, minute), minute)
    feed.beat(2)
    counted = spark.read.format("delta").load(log.table).groupBy("day").count().collect()
    assert rows_by_day(log.table) == {row["day"]: row["count"] for row in counted}
    assert len(counted) == 2


def answered(braid: Callable[..., Answer]) -> tuple[int, int]:
    """(version, events) that a reader gets now."""
    found = braid("query", "traffic", "--grain", "1 day", "--json", "--limit", "1000")
    assert found.code == 0, found.err
    document = json.loads(found.out)
    return document["version"], sum(row["hits"] for row in document["rows"])


@pytest.mark.usefixtures("spark")
def test_a_changed_filter_is_planned_applied_and_rolled_back_while_readers_get_whole_answers(
    spark: Any, settings: Settings, braid: Callable[..., Answer], define: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    feed = Feed(spark, Log(requests, settings))
    for minute in range(3):
        feed.commit(some(40, minute), minute)
    feed.beat(3)
    events = [event for minute in range(3) for event in some(40, minute)]
    before, after = (sum(event["bytes"] < limit for event in events) for limit in (500, 900))
    assert before < after

    define(500)
    assert changes(braid) == {"traffic": "new"}
    assert braid("apply").code == 0
    assert answered(braid) == (1, before)
    assert braid("plan", "--check").code == 0

    define(900)
    planned = json.loads(braid("plan", "--json").out)
    assert [(one["view"], one["change"], one["cost"]) for one in planned] == [
        ("traffic", "results changed", {"events": 120, "days": 2})
    ]
    assert [one["differences"] for one in planned] == [
        [{"field": "where", "old": "'bytes < 500'", "new": "'bytes < 900'"}]
    ]
    assert braid("plan", "--check").code == 1

    seen: list[tuple[int, int]] = []
    from speed_layer.stream import replay as replaying

    finish = replaying.StreamJob.finish

    def look(self: Any, once: bool) -> None:
        seen.append(answered_directly(settings))
        finish(self, once)

    monkeypatch.setattr(replaying.StreamJob, "finish", look)
    lineage = settings.location("lineage.jsonl")
    monkeypatch.setenv("BRAID_LINEAGE", lineage)
    applied = braid("apply", "--json")
    assert applied.code == 0, applied.err
    assert seen
    assert set(seen) == {(1, before)}
    assert answered(braid) == (2, after)

    assert braid("kappa", "rollback", "traffic").code == 0
    assert answered(braid) == (1, before)
    assert [(job, kind) for job, kind in kinds(told_in(lineage)) if kind != "START"] == [
        ("replay.traffic", "COMPLETE"), ("promote.traffic", "COMPLETE"), ("rollback.traffic", "COMPLETE"),
    ]  # fmt: skip
    replayed, promoted, returned = (e for e in told_in(lineage) if e["eventType"] == "COMPLETE")
    assert replayed["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 120
    assert [e["run"]["facets"]["braid_version"]["version"] for e in (replayed, promoted, returned)] == [
        2,
        2,
        1,
    ]
    assert [one["name"] for one in promoted["outputs"]] == [settings.location("views", "traffic")]
    assert changes(braid) == {"traffic": "rolled back"}
    assert braid("kappa", "promote", "traffic").code == 1
    assert braid("kappa", "promote", "traffic", "--accept-differences", "the limit was raised").code == 0
    assert answered(braid) == (2, after)
    history = json.loads(braid("kappa", "status", "traffic", "--json").out)[0]["history"]
    assert history[-1]["because"].startswith("the limit was raised (v2 differs from the active v1")

    assert braid("kappa", "retire", "traffic", "2").code == 2
    assert braid("kappa", "retire", "traffic", "1").code == 0
    assert not Path(tables_of(settings, traffic, 1).folder).exists()
    assert braid("kappa", "rollback", "traffic").code == 2
    assert answered(braid) == (2, after)


def changes(braid: Callable[..., Answer]) -> dict[str, str]:
    return {one["view"]: one["change"] for one in json.loads(braid("plan", "--json").out)}


def answered_directly(settings: Settings) -> tuple[int, int]:
    """The same without the command, which cannot be called from within another."""
    from serving_layer.answer.answers import ask
    from serving_layer.answer.reader import FromTables, active_version
    from serving_layer.answer.request import parse_request

    version = active_version(settings, "traffic")
    rows = ask(FromTables(settings, version), parse_request(version.view, grain="1 day", limit=1000)).rows
    return version.number, sum(rows["hits"].to_pylist())


@pytest.mark.usefixtures("spark")
def test_a_changed_presentation_touches_no_table(
    spark: Any, settings: Settings, braid: Callable[..., Answer], define: Callable[..., None]
) -> None:
    feed = Feed(spark, Log(requests, settings))
    feed.commit(some(40, 0), 0)
    feed.beat(1)
    define(900)
    assert braid("stream", "--once").code == 0
    define(900, ", lateness='1 hour'")
    assert changes(braid) == {"traffic": "presentation changed"}
    assert braid("apply").code == 0
    active = deployment.load(settings, "traffic").active
    assert active is not None
    assert (active.number, active.view.lateness) == (1, "1 hour")
    assert braid("plan", "--check").code == 0


@pytest.mark.usefixtures("spark")
def test_a_replay_from_a_day_says_which_days_it_would_take_from_readers(
    spark: Any, settings: Settings, braid: Callable[..., Answer], define: Callable[..., None]
) -> None:
    feed = Feed(spark, Log(requests, settings))
    feed.commit(some(60, 0), 0)
    feed.beat(1)
    define(900)
    assert braid("stream", "--once").code == 0
    assert braid("kappa", "replay", "traffic", "--from", "yesterday").code == 2
    replayed = braid("kappa", "replay", "traffic", "--from", "2026-03-01", "--json")
    assert json.loads(replayed.out)["phase"] == "candidate", replayed.err
    days = served(spark, traffic, tables_of(settings, traffic, 2))
    assert {str(row[0]) for row in days} == {"2026-03-01"}
    refused = braid("kappa", "promote", "traffic")
    assert refused.code == 1
    assert "begins later: 1 days, 2026-02-28" in refused.err


@pytest.mark.usefixtures("spark")
def test_a_version_whose_numbers_are_wrong_is_not_promoted(
    spark: Any, settings: Settings, braid: Callable[..., Answer], define: Callable[..., None]
) -> None:
    feed = Feed(spark, Log(requests, settings))
    feed.commit(some(40, 0), 0)
    feed.beat(1)
    define(900)
    assert braid("stream", "--once").code == 0
    assert braid("kappa", "replay", "traffic").code == 0
    base = tables_of(settings, traffic, 2).base
    spark.sql(f"delete from delta.`{base}` where url = '/a'")
    found = json.loads(braid("kappa", "compare", "traffic", "--json").out)
    assert not found["holds"]
    assert [parity["missing"] > 0 for parity in found["parities"]] == [True, True]
    assert braid("kappa", "promote", "traffic").code == 1
    active = deployment.load(settings, "traffic").active
    assert active is not None
    assert active.number == 1


@pytest.mark.usefixtures("spark")
def test_an_unknown_view_or_version_is_named(
    braid: Callable[..., Answer], settings: Settings, define: Callable[..., None]
) -> None:
    define(900)
    for command in (["kappa", "rollback", "trafic"], ["kappa", "promote", "trafic"], ["recover", "trafic"]):
        refused = braid(*command)
        assert refused.code == 2
        assert "Did you mean 'traffic'?" in refused.err
    assert "`braid apply traffic` does it" in braid("kappa", "promote", "traffic").err


def test_a_fold_while_versions_are_being_read_is_no_difference_between_them(
    spark: Any, at_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, feed = replace(traffic, mode="kappa"), Feed(spark, Log(requests, at_home))
    feed.commit(some(40, 0), 0)
    feed.beat(1)
    run_once(spark, at_home, view)
    assert replay(spark, at_home, view).number == 2
    read = parity.states_of

    def read_later(*asked: Any) -> Any:
        """Between the choice of the cut and the first look into a table, both versions fold what came."""
        monkeypatch.setattr(parity, "states_of", read)
        feed.commit(some(40, 2), 2)
        feed.beat(6)
        run_once(spark, at_home, view)
        return read(*asked)

    monkeypatch.setattr(parity, "states_of", read_later)
    case = judge(spark, at_home, "traffic")
    assert case.holds, case.objections()
    assert {found.cut for found in case.parities} == {NOON + 5 * MINUTE}
    with pytest.raises(NotYet, match=r"covers .* and cannot be read as it was at .*: ask for a later cut"):
        served(spark, view, tables_of(at_home, view), NOON)
