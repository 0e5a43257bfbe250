"""What `braid batch` says without Spark: to people, to schedulers, and about mistakes."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from batch_layer.days import Accuracy, DayRecord, Gate, Publish, Release
from batch_layer.gates.values import Check, Verdict
from batch_layer.plan import PlannedDay
from braid.cli.batch.board import board_rows, print_board
from tests.conftest import Answer

Braid = Callable[..., Answer]
DAY = date(2026, 3, 1)
CUT = datetime(2026, 3, 2, tzinfo=UTC)
BAD = Verdict((Check("share of quarantined records", False, 0.4, "at most 0.2"),))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--day", "2026-13-01"), "'2026-13-01' is not a day"),
        (("run", "--day", "2026-03-01", "--from", "2026-03-01"), "either --day or a range"),
        (("run", "--from", "2026-03-02", "--to", "2026-03-01"), "2026-03-02, is after the last, 2026-03-01"),
        (("run", "--cut", "yesterday"), "'yesterday' is not a time"),
        (("run", "--cut", "2026-03-02T00:00"), "has no zone: write it as 2026-03-02T00:00Z"),
        (("plan", "--view", "page_trafic"), "there is no view 'page_trafic'"),
        (("release", "2026-03-01", "--because", ""), "the reason is empty"),
    ],
)
def test_a_mistake_is_named_with_what_to_do(
    braid: Braid, home: Path, arguments: tuple[str, ...], said: str
) -> None:
    answer = braid("batch", *arguments)
    assert answer.code == 2
    assert said in " ".join(answer.err.split())


def test_a_scheduler_is_told_to_ask_again(braid: Braid, home: Path) -> None:
    answer = braid("batch", "cut", "--day", "2026-03-01")
    assert (answer.code, answer.out) == (99, "")
    assert "braid ingest requests" in answer.err


def test_a_pinned_cut_is_one_line_whatever_the_log_says(braid: Braid, home: Path) -> None:
    from batch_layer.arrivals import pinned
    from braid.runtime.settings import load_settings

    pinned(load_settings(), "nightly", CUT)
    answer = braid("batch", "cut", "--day", "2026-03-01", "--run", "nightly")
    assert (answer.code, answer.out) == (0, "2026-03-02T00:00:00+00:00\n")


def test_views_are_one_line_of_json_and_leave_out_those_of_streams_alone(
    braid: Braid, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "mine.py"
    module.write_text(
        "from dataclasses import replace\nfrom examples.weblog import page_traffic, visits\n"
        "visits = replace(visits, mode='kappa')\npage_traffic = replace(page_traffic, mode='lambda')\n"
    )
    monkeypatch.setenv("BRAID_DEFINITIONS", str(module))
    answer = braid("batch", "views")
    assert json.loads(answer.out) == ["page_traffic"]
    assert answer.out.count("\n") == 1


def test_an_empty_home_has_an_empty_plan(braid: Braid, home: Path) -> None:
    answer = braid("batch", "plan", "--json")
    assert (answer.code, json.loads(answer.out)) == (0, [])


def planned(state: str, record: DayRecord, gate: Gate | None = None) -> PlannedDay:
    return PlannedDay("traffic", DAY, state, "why", CUT, CUT, 10, 3, CUT, record, gate)  # type: ignore[arg-type]


def test_the_board_tells_held_released_and_how_right_the_stream_was(
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish = Publish(CUT, CUT, 10, 4, 1, {}, Accuracy(100, 99, 0.25))
    later = Gate(CUT + timedelta(hours=1), BAD)
    days = [
        planned("up to date", DayRecord(DAY, publish, Gate(CUT, BAD, Release("known", CUT, CUT)))),
        planned("held", DayRecord(DAY, publish, later), later),
        planned("never computed", DayRecord(DAY)),
    ]
    released, held, never = board_rows(days)
    assert (released["gate"], released["released_because"], released["accuracy"]) == (
        "released",
        "known",
        0.99,
    )
    assert (held["gate"], held["failing"]) == ("held", ["share of quarantined records"])
    assert (never["gate"], never["accuracy"], never["rows"]) == (None, None, None)
    print_board(days)
    assert "why" in capsys.readouterr().out


def test_a_release_does_not_count_for_a_later_cut() -> None:
    release = Release("known", CUT, CUT)
    assert not Gate(CUT, BAD, release).holds
    assert Gate(CUT + timedelta(minutes=1), BAD, release).holds
