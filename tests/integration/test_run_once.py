"""`braid run --once` brings everything up to date in one Spark application, as the commands one by one would."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lineage import kinds, required, told_in

DEFINITIONS = """
from braid import Source, View, count, max_, tumbling
people = Source(name="people", files="{drop}/*.jsonl", schema="id string, time timestamp, name string",
                event_time="time", event_id="id")
by_name = View(name="by_name", source=people, derive={{"day_name": "concat('day ', name)"}}, keys=("day_name",),
               window=tumbling("1 day"), measures={{"n": count(), "latest": max_("day_name")}})
alone = View(name="alone", source=people, keys=(), window=tumbling("1 hour"), measures={{"n": count()}}, mode="kappa")
"""


def events(*times: str) -> str:
    return "".join(f"{json.dumps({'id': t, 'time': t, 'name': t[:10]})}\n" for t in times)


def test_everything_is_up_to_date_after_one_command(
    spark: Any, home: Path, braid: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = tmp_path / "drop"
    drop.mkdir()
    (tmp_path / "mine.py").write_text(DEFINITIONS.format(drop=drop))
    monkeypatch.setenv("BRAID_DEFINITIONS", str(tmp_path / "mine.py"))
    (drop / "one.jsonl").write_text(events("2024-01-01T10:00:00Z", "2024-01-02T10:00:00Z"))
    monkeypatch.setenv("BRAID_LINEAGE", str(tmp_path / "lineage.jsonl"))
    first = braid("run", "--once", "--json")
    assert first.code == 0, first.err
    assert {(day["view"], day["day"], day["outcome"]) for day in json.loads(first.out)} == {
        ("by_name", "2024-01-01", "published"),
        ("by_name", "2024-01-02", "published"),
    }
    _lineage_tells_of(told_in(tmp_path / "lineage.jsonl"), home, drop)
    monkeypatch.delenv("BRAID_LINEAGE")
    (drop / "two.jsonl").write_text(events("2024-01-02T11:00:00Z", "2024-01-02T11:00:00Z"))
    second = json.loads(braid("run", "--once", "--json").out)
    assert [(day["day"], day["outcome"], day["events"]) for day in second] == [("2024-01-02", "published", 2)]
    assert json.loads(braid("run", "--once", "--json").out) == []
    assert json.loads(braid("ledger", "people", "--json").out)["balanced"]
    assert {day["state"] for day in json.loads(braid("batch", "plan", "--json").out)} == {"up to date"}
    shown = json.loads(braid("show", "by_name", "--plan", "--json").out)
    assert (shown.pop("plan") > "", shown) == (True, json.loads(braid("show", "by_name", "--json").out))
    for view, expected in (("by_name", [1, 2]), ("alone", [1, 1, 1])):
        answer = json.loads(braid("query", view, "--json").out)
        assert sorted(row["n"] for row in answer["rows"]) == expected


def _lineage_tells_of(events: list[dict[str, Any]], home: Path, drop: Path) -> None:
    """Each job began and ended, and what one wrote the next one reads."""
    for event in events:
        required(event)
    assert sorted(kinds(events)) == [
        (job, kind)
        for job in ("batch.by_name", "ingest.people", "stream.alone", "stream.by_name")
        for kind in ("COMPLETE", "START")
    ]
    ends = {event["job"]["name"]: event for event in events if event["eventType"] == "COMPLETE"}
    log, views = str(home / "log" / "people"), home / "views"
    places = {
        job: ([one["name"] for one in end["inputs"]], [one["name"] for one in end["outputs"]])
        for job, end in ends.items()
    }
    assert places == {
        "ingest.people": ([str(drop)], [log]),
        "stream.alone": ([log], [str(views / "alone" / "v1" / "tail")]),
        "stream.by_name": ([log], [str(views / "by_name" / "v1" / "tail")]),
        "batch.by_name": ([log], [str(views / "by_name" / "v1" / "base")]),
    }
    batch = ends["batch.by_name"]
    assert batch["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 2
    assert batch["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 2
    cut = batch["run"]["facets"]["braid_cut"]
    assert (cut["firstDay"], cut["lastDay"], cut["daysPublished"]) == ("2024-01-01", "2024-01-02", 2)
    assert {"name": "name", "type": "string"} in batch["inputs"][0]["facets"]["schema"]["fields"]


def test_a_run_without_an_end_is_refused_with_what_to_do(home: Path, braid: Callable[..., Any]) -> None:
    answer = braid("run")
    assert (answer.code, "`braid run --once`" in answer.err, "`braid up`" in answer.err) == (2, True, True)
