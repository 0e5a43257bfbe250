"""`braid compare` says what is wrong with a question before it starts anything."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from braid.cli.output import console
from braid.cli.serving.compare_tables import print_report
from braid.tables.commits import Position, TailCommit
from serving_layer.accuracy.explain.compared_rows import ComparedDay, ComparedDays
from serving_layer.accuracy.explain.variants import stretches
from serving_layer.accuracy.report.history import keep
from serving_layer.accuracy.report.values import UNEXPLAINED, Counterexample, LogEvent
from tests.accuracy import DAYS, NOON, comparison, made
from tests.conftest import Answer

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("page_trafic",), "Did you mean 'page_traffic'"),
        (("page_traffic", "--day", "2026-03-01", "--from", "2026-03-01"), "either --day or a range"),
        (("page_traffic", "--from", "2026-03-02", "--to", "2026-03-01"), "swap them"),
        (("page_traffic", "--cut", "2026-03-01T00:00"), "has no zone"),
        (("--html", "report.html"), "name it"),
        (("page_traffic", "--html", "no/such/folder/report.html"), "cannot be written"),
        (("page_traffic",), "run `braid stream page_traffic`"),
        (("page_traffic", "--against", "yesterday"), "write batch, active, or a version's number"),
        (("--against", "active"), "name the view"),
        (("--version", "2"), "name the view"),
        (
            ("page_traffic", "--against", "1", "--html", "report.html"),
            "--html belongs to a comparison with the log",
        ),
        (("page_trafic", "--against", "active"), "Did you mean 'page_traffic'"),
        (("page_traffic", "--against", "active"), "`braid apply page_traffic` does it"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(
    braid: Callable[..., Answer], arguments: tuple[str, ...], message: str
) -> None:
    answer = braid("compare", *arguments)
    assert answer.code == 2
    assert message in answer.err


def test_the_history_of_a_view_is_shown_without_spark(braid: Callable[..., Answer], home: Path) -> None:
    from braid.runtime.settings import Settings

    assert "Nothing was compared yet" in braid("compare", "page_traffic", "--history").out
    keep(Settings(home=str(home)), made(comparison(wrong=4)))
    (kept,) = json.loads(braid("compare", "page_traffic", "--history", "--json").out)
    assert (kept["view"], kept["share"], kept["holds"]) == ("page_traffic", 0.98, True)
    assert "98.0 %" in braid("compare", "page_traffic", "--history").out


def test_without_a_view_all_lambda_views_that_are_deployed_are_compared(braid: Callable[..., Answer]) -> None:
    assert json.loads(braid("compare", "--json").out) == []


def test_the_smallest_counterexample_is_printed_with_its_offsets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_width", 200)
    minute = timedelta(minutes=1)
    events = (
        LogEvent(2, 4711, NOON, NOON + minute, NOON - minute, True),
        LogEvent(0, 12, NOON, NOON, NOON),
    )
    example = Counterexample({"day": DAYS[0], "url": "/[x]"}, {"hits": 3}, {"hits": 2}, events, more=5)
    print_report(made(comparison(wrong=1, cause=UNEXPLAINED, counterexample=example)))
    said = capsys.readouterr().out
    titled = next(line for line in said.splitlines() if "_partition" in line)
    suspect = next(line for line in said.splitlines() if "4711" in line)
    cells = [[cell.strip() for cell in line.replace("┃", "│").split("│")[1:-1]] for line in (titled, suspect)]
    assert dict(zip(*cells, strict=True)) == {
        "_partition": "2", "_offset": "4711", "_epoch": str(NOON), "_arrival": str(NOON + minute),
        "event time": str(NOON - minute), "epoch is off": "here",
    }  # fmt: skip
    for part in (
        "url=/[x]",
        "hits=3",
        "hits=2",
        "4711",
        "and 5 more",
        "A watermark of 12 minutes",
    ):
        assert part in said


def tail_commit(batch: int, minute: int | None, version: str, **more: Any) -> TailCommit:
    epoch = None if minute is None else NOON + timedelta(minutes=minute)
    position = Position(batch + 1, starting=minute is None)
    return TailCommit("q", batch, position, epoch=epoch, lookups={"pages": version}, **more)


def test_batches_that_read_the_same_versions_are_one_stretch() -> None:
    commits = [tail_commit(3, 2, "1"), tail_commit(2, 1, "1"), tail_commit(1, 1, "0"), tail_commit(0, 0, "0")]
    first, second = stretches(commits)
    assert (first.versions, first.upto, first.before) == ({"pages": "0"}, NOON + timedelta(minutes=1), 2)
    assert (second.versions, second.upto) == ({"pages": "1"}, None)


def test_history_is_read_up_to_the_replays_cut() -> None:
    commits = [tail_commit(1, 9, "1"), tail_commit(0, None, "0", replay_cut=NOON)]
    assert [(one.upto, one.before) for one in stretches(commits)] == [(NOON, None), (None, None)]
    assert stretches([]) == []


def test_the_stream_alone_is_judged_only_where_its_rows_are_all_there() -> None:
    published, collected, fresh = (
        ComparedDay(DAYS[0], NOON, NOON, NOON, in_tail=True),
        ComparedDay(DAYS[1], NOON, NOON, NOON, in_tail=False),
        ComparedDay(DAYS[1] + timedelta(days=1), NOON),
    )
    earlier = datetime(2026, 3, 1, 11, tzinfo=UTC)

    def compared_of(limit: datetime | None) -> ComparedDays:
        return ComparedDays(None, None, 1, 1, (published, collected, fresh), None, limit, {})  # type: ignore[arg-type]

    alone = compared_of(earlier).stream_alone()
    assert alone is not None
    assert [(one.day, one.cut, one.deduplicated) for one in alone.days] == [(DAYS[0], earlier, None)]
    assert compared_of(None).stream_alone() is None
