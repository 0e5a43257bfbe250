"""Two sources are joined by a stream that misses what is too late, and batch adds exactly that."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from batch_layer.compare_derived import DerivedReport, compare
from batch_layer.derived import correct
from braid.errors import BraidError
from braid.log.derived import Derivation, DerivedPlaces
from speed_layer.ledger.balance import Ledger, take_stock
from tests.clicks import Clicks, Pair, Parts, parts
from tests.conftest import Answer
from tests.streams import recomputed, served, tables_of


@dataclass
class Story:
    """What was seen on the way: before the correction, after it, after a lost checkpoint, and in a moved home."""

    parts: Parts
    clicks: Clicks
    in_time: list[Pair]
    before: DerivedReport
    late: Derivation
    uncorrected: list[Pair]
    added: int
    again: int
    after: DerivedReport
    ledger: Ledger
    moved: Clicks
    moved_added: int


def run(clicks: Clicks) -> int:
    return correct(lambda: clicks.spark, clicks.settings, [clicks.join])


@pytest.fixture(scope="module")
def story(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("clicks")
    clicks, made = Clicks(spark, folder, folder / "home"), parts()
    clicks.make()
    clicks.put("in-time", made.shown, made.clicks)
    clicks.stream()
    in_time = clicks.pairs()
    clicks.put("late", made.late_shown, made.late_clicks)
    clicks.stream()
    before, uncorrected = compare(spark, clicks.join, clicks.settings), clicks.pairs()
    late = DerivedPlaces(clicks.log).derivation()
    assert late is not None
    added = run(clicks)
    # Handed in and not ingested yet: it is not handed in twice.
    (Path(DerivedPlaces(clicks.log).root) / "batch.json").unlink()
    again = run(clicks)
    clicks.stream()
    after, ledger = compare(spark, clicks.join, clicks.settings), take_stock(clicks.log)
    moved = Clicks(spark, folder, folder / "moved")
    shutil.copytree(clicks.home, moved.home)
    shutil.rmtree(DerivedPlaces(moved.log).checkpoint)
    moved.put("more", [showing("m1"), showing("m2")], [click("m1")])
    moved.stream()
    moved.put("rest", [], [click("m2")])
    moved.stream()
    return Story(
        made, clicks, in_time, before, late, uncorrected, added, again, after, ledger, moved, run(moved)
    )


def showing(name: str) -> dict[str, Any]:
    shown = parts().shown[0]
    return shown | {"id": f"s-{name}", "ad_id": name, "campaign": "Fjord"}


def click(name: str) -> dict[str, Any]:
    return {"id": f"c-{name}", "ad_id": name, "time": showing(name)["time"]}


def test_the_stream_draws_every_pair_of_what_comes_in_time_once(story: Story) -> None:
    assert story.in_time == story.parts.pairs(late=False)
    assert len(story.in_time) > 50


def test_what_is_too_late_is_counted_and_the_difference_is_what_compare_says(story: Story) -> None:
    every = story.parts.pairs(late=True)
    assert story.uncorrected == story.in_time
    assert story.before.missing == len(every) - len(story.in_time) > 20
    assert (story.before.events, story.before.streamed) == (len(every), len(story.in_time))
    assert (story.before.extra, story.before.waiting, story.before.unexplained) == (0, 0, 0)
    late = {one.side: one for one in story.before.late}
    assert late["left"].events + late["right"].events == story.before.missing
    assert min(late["left"].events, late["right"].events) > 0
    assert late["left"].seconds > 600
    # All that is late here is more than ten minutes late: who waits less would have missed as much.
    lost = {one.lateness: one.events for one in story.before.curve}
    assert lost["10 minutes"] == lost["0 seconds"] == story.before.missing
    assert lost["1 day"] == 0
    inputs = {event["id"] for event in (*story.parts.late_shown, *story.parts.late_clicks)}
    assert (story.late.late, story.late.uncounted, story.late.settled) == (len(inputs), 0, True)
    assert story.late.events == len(story.in_time)


def test_batch_adds_what_the_stream_missed_once_and_all_of_it_is_true(story: Story) -> None:
    assert (story.added, story.again) == (story.before.missing, 0)
    assert story.clicks.pairs() == story.parts.pairs(late=True)
    assert (story.after.missing, story.after.corrected, story.after.extra) == (0, story.added, 0)
    assert run(story.clicks) == 0
    tables = tables_of(story.clicks.settings, story.clicks.view)
    spark, view = story.clicks.spark, story.clicks.view
    assert served(spark, view, tables) == recomputed(spark, view, story.clicks.settings)


def test_its_ledger_balances_and_says_what_it_was_drawn_from(story: Story) -> None:
    assert story.ledger.balanced, story.ledger.violations
    assert story.ledger.derived is not None
    told = {name: story.ledger.derived[name] for name in ("events", "late", "uncounted", "added")}
    assert told == {
        "events": len(story.in_time),
        "late": story.late.late,
        "uncounted": 0,
        "added": story.added,
    }
    assert story.ledger.requeued["sent"] == 0
    assert set(story.ledger.derived["inputs"]) == {"impressions", "clicks"}
    # What ingest has read of the deriver's files is deleted with its next batch.
    assert list(Path(DerivedPlaces(story.clicks.log).events).glob("*.jsonl")) == []


def test_a_ledger_whose_positions_are_not_those_of_the_checkpoint_does_not_balance(
    story: Story, tmp_path: Path
) -> None:
    copy = Clicks(story.clicks.spark, story.clicks.folder, tmp_path / "home")
    shutil.copytree(story.clicks.home, copy.home)
    places = DerivedPlaces(copy.log)
    said = places.derivation()
    assert said is not None
    ends = {name: replace(at, version=at.version + 1) for name, at in said.ends.items()}
    places.keep_derivation(replace(said, ends=ends))
    books = take_stock(copy.log)
    assert not books.balanced
    assert {one.kind for one in books.violations} == {"gap in what was read"}


def test_a_home_that_was_moved_and_lost_its_checkpoint_goes_on_and_batch_adds_what_was_forgotten(
    story: Story,
) -> None:
    known, now = Counter(story.clicks.ids()), Counter(story.moved.ids())
    assert known <= now
    assert set(now.values()) == {1}
    # Of two new pairs each is drawn by the stream, or by batch where what it remembered was lost.
    assert len(now) - len(known) + story.moved_added == 2


def test_the_same_history_in_another_order_gives_the_same_events(story: Story, tmp_path: Path) -> None:
    other = Clicks(story.clicks.spark, tmp_path / "other", tmp_path / "home")
    other.make()
    other.put("late", story.parts.late_shown[::-1], story.parts.late_clicks[::-1])
    other.put("in-time", story.parts.shown[::-1], story.parts.clicks[::-1])
    other.stream()
    assert other.ids() == story.clicks.ids()
    assert run(other) == 0


def test_a_changed_join_is_refused_and_nothing_of_it_is_drawn(story: Story) -> None:
    changed = replace(story.clicks.join, within=("0 minutes", "10 minutes"))
    with pytest.raises(BraidError, match="is defined otherwise than when its events were made"):
        compare(story.clicks.spark, changed, story.clicks.settings)


def test_compare_show_and_ledger_tell_a_person_of_a_derived_source(
    story: Story, braid: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_HOME", str(story.clicks.home))
    monkeypatch.setenv("BRAID_DEFINITIONS", str(story.clicks.folder / "definitions.py"))
    told = braid("compare", "clicked")
    assert told.code == 0, told.err
    assert "Too late for a stream that waits 10 minutes:" in told.out
    refused = braid("compare", "clicked", "--day", "2026-03-05")
    assert refused.code == 2
    assert "--day is for views, and 'clicked' is a derived source" in refused.err
    assert "by batch, which the stream had missed" in braid("ledger", "clicked").out
    assert "timestampdiff(second, left.time, right.time)" in braid("show", "clicked", "--json").out
    assert json.loads(braid("batch", "correct", "clicked", "--json").out) == {"added": 0}
    assert braid("check").code == 0
