"""`braid run --once` brings everything up to date in one Spark application, as the commands one by one would."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
    first = braid("run", "--once", "--json")
    assert first.code == 0, first.err
    assert {(day["view"], day["day"], day["outcome"]) for day in json.loads(first.out)} == {
        ("by_name", "2024-01-01", "published"),
        ("by_name", "2024-01-02", "published"),
    }
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


def test_a_run_without_an_end_is_refused_with_what_to_do(home: Path, braid: Callable[..., Any]) -> None:
    answer = braid("run")
    assert (answer.code, "`braid run --once`" in answer.err, "`braid up`" in answer.err) == (2, True, True)
