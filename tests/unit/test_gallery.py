"""What a play shows and compares: a wrong number is found, and a table holds what a person should see."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from rich.console import Console

from braid import View, approx_distinct, count, mean, sum_
from braid.cli.demo.gallery import check_table, result_table
from braid.examples.sensors import play as sensors
from braid.examples.stage import naive
from braid.examples.stage.checks import Played, Shown, TruthCheck, against_truth, equal, identical
from braid.examples.stage.naive import Answer
from braid.examples.weblog import requests

view = View(
    name="v", source=requests, keys=("url",),
    measures={"n": count(), "bytes": sum_("bytes"), "mean": mean("bytes"), "hosts": approx_distinct("host")},
)  # fmt: skip
RIGHT = {"n": 3, "bytes": Decimal("1.10"), "mean": 0.1, "hosts": 1000}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def checked(**wrong: object) -> TruthCheck:
    found: Answer = {("/",): RIGHT | wrong}
    return against_truth("check", view, found, {("/",): RIGHT})


def test_exact_numbers_are_equal_and_sketches_are_within_their_error() -> None:
    assert checked().ok
    assert checked(mean=0.1 + 1e-12, hosts=1050).ok
    assert not identical("", view, {("/",): RIGHT | {"hosts": 1050}}, {("/",): RIGHT}).ok


@pytest.mark.parametrize(
    "wrong", [{"n": 4}, {"bytes": Decimal("1.1000001")}, {"mean": 0.1001}, {"hosts": 800}, {"n": None}]
)
def test_a_wrong_number_is_found_and_shown_beside_the_true_one(wrong: dict[str, object]) -> None:
    check = checked(**wrong)
    assert not check.ok
    assert "0 rows equal\n/: n " in check.found
    assert "1 rows\n/: n 3, bytes 1.10" in check.expected


def test_a_row_too_many_and_a_row_too_few_are_wrong_and_so_is_no_truth_at_all() -> None:
    one: Answer = {("/",): RIGHT}
    assert "nothing" in against_truth("", view, {}, one).found
    assert "nothing" in against_truth("", view, {**one, ("/a",): RIGHT}, one).expected
    assert not against_truth("", view, {}, {}).ok


def test_a_table_draws_its_bars_to_scale() -> None:
    shown = Shown("titles", ("who", "n", "late"), (("a", 30, 2), ("b", 8, 0)), ("n", "late"))
    printed = Console(width=100)
    with printed.capture() as got:
        printed.print(result_table(shown), check_table([equal("x", 1, 2)]))
    lines = got.get().splitlines()
    assert [line.count("█") for line in lines if "│" in line][:2] == [28, 7]
    assert any("x" in line and "no" in line for line in lines)
    assert not Played((shown,), (equal("x", 1, 2),)).ok


def test_naive_windows_hold_each_event_as_often_as_they_overlap() -> None:
    events = [{"time": NOON + timedelta(seconds=s), "k": "a", "n": s} for s in (0, 59, 60)]
    every = naive.sliding(timedelta(minutes=2), timedelta(minutes=1))
    found = naive.answer(events, ["k"], every, {"n": len, "most": naive.most("n")})
    minutes = {(start - NOON) / timedelta(minutes=1): row for (_, start), row in found.items()}
    assert minutes == {-1: {"n": 2, "most": 59}, 0: {"n": 3, "most": 60}, 1: {"n": 1, "most": 60}}
    sessions = naive.sessions(events, ["k"], timedelta(seconds=30), {"n": len})
    assert {start: row["n"] for (_, start), row in sessions.items()} == {NOON: 1, events[1]["time"]: 2}


def test_a_quiet_day_raises_nothing_by_its_own_model_and_an_unknown_device_never() -> None:
    """Otherwise batch, which knows the model when it recomputes the day, would differ from the stream."""
    quiet = sensors.quiet_day(seed=1)
    model = sensors.true_usual(quiet)
    assert sensors.true_alerts(quiet, model) == {}
    assert {device for _, device, _, _ in sensors.true_alerts(sensors.busy_morning(seed=2), model)} == {
        "boiler-1"
    }
