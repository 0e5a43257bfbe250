"""Following a view, change by change, ends where reading it anew begins."""

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from braid import all_time, session, sliding, tumbling
from braid.define.windows import Window
from braid.deploy.store import changing
from braid.deploy.versions import promoted, replayed, rolled_back
from braid.errors import BraidError
from braid.runtime.settings import Settings
from braid.states import arrow
from serving_layer.answer.numbers import numbers as presented
from serving_layer.answer.reader import active_version, read
from serving_layer.memory import follower
from serving_layer.memory import tail_pieces as pieces
from serving_layer.memory.blocks import BlockCache
from serving_layer.memory.changes import Row, Rows, WholeTable, by_name, final, updates
from serving_layer.memory.follower import Follower
from tests.serving import MIDNIGHT, MINUTE, Event, Tables, some_events, view_of

NOW = datetime(2024, 1, 1, tzinfo=UTC)
WINDOWS = {
    "1 minute": tumbling("1 minute"),
    "3 hours every hour": sliding("3 hours", every="1 hour"),
    "1 day": tumbling("1 day"),
    "session": session(gap="30 minutes"),
    "all time": all_time(),
}


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home))


def begun(settings: Settings, window: Window, **changes: Any) -> Tables:
    tables = Tables(settings, view_of(window, **changes))
    tables.deploy()
    tables.append(some_events(0, 30, MIDNIGHT, hours=1))
    return tables


class Watcher:
    """A reader of all three modes, who keeps what it was told."""

    def __init__(self, settings: Settings, memory: BlockCache | None = None) -> None:
        self.follower = Follower(settings, "hits", memory)
        self.updated: Rows = {}
        self.final: Rows = {}
        self.table: list[Row] = []
        self._whole = WholeTable()
        self._take(self.follower.start())

    def look(self) -> None:
        if (move := self.follower.step()) is not None:
            self._take(move)

    def _take(self, move: Any) -> None:
        for rows, told in ((self.updated, updates(move)), (self.final, final(move))):
            for row in told:
                name = (row.get("host"), row.get("window_start"))
                plain = {column: value for column, value in row.items() if column != "_change"}
                if row["_change"] == "withdrawn":
                    del rows[name]
                else:
                    rows[name] = plain
        self.table = self._whole.take(move) or self.table


def numbers(rows: Any) -> list[str]:
    return sorted(str({name: value for name, value in row.items() if name != "_status"}) for row in rows)


def assert_knows_everything(watcher: Watcher, settings: Settings) -> None:
    version = active_version(settings, "hits")
    anew = by_name(version.view, presented(read(settings, version)))
    assert numbers(watcher.updated.values()) == numbers(anew.values())
    assert sorted(map(str, watcher.table)) == sorted(map(str, anew.values()))
    finals = [row for row in anew.values() if row["_status"] != "provisional"]
    assert sorted(map(str, watcher.final.values())) == sorted(map(str, finals))


@pytest.mark.parametrize("memory", [1 << 30, 0], ids=["with memory", "without memory"])
@pytest.mark.parametrize("keys", [("host",), ()], ids=["by host", "without keys"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_what_was_told_adds_up_to_the_table_whatever_happens_to_it(
    settings: Settings,
    window: Window,
    keys: tuple[str, ...],
    memory: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without memory for the tail, its closed epochs are left in the table, and each publish cuts through them."""
    monkeypatch.setattr(pieces, "PIECES", 3)
    monkeypatch.setattr(follower, "PIN_AGAIN", 0.0)
    tables = begun(settings, window, keys=keys)
    watcher = Watcher(settings, BlockCache(memory))
    draw = random.Random(str(window))

    def publish(epoch: datetime) -> None:
        day = draw.choice([event.day for event in tables.events])
        tables.publish(day, max(epoch - MINUTE, tables.through.get(day, MIDNIGHT)))

    acts: list[Callable[[datetime], None]] = [
        lambda epoch: tables.append(
            some_events(draw.randrange(99), 6, epoch, hours=draw.randrange(1, 30)), complete=epoch - MINUTE
        ),
        lambda epoch: tables.append(
            [replace(draw.choice(tables.events), epoch=epoch)], complete=epoch - MINUTE
        ),
        publish,
        lambda _: tables.collect(),
        lambda _: tables.fold(),
        lambda _: tables.optimize(),
    ]
    for turn in range(1, 17):
        for act in draw.choices(acts, weights=(4, 2, 2, 1, 1, 1), k=2):
            act(MIDNIGHT + turn * MINUTE)
        watcher.look()
        assert_knows_everything(watcher, settings)
    if not memory:
        assert watcher.follower.now.old_days(), "nothing was left in the table"
    by_hand = tables.answer()
    assert len(watcher.table) == len(by_hand)
    assert sum(row["hits"] for row in watcher.table) == sum(row["hits"] for row in by_hand.values())


def test_a_late_event_is_told_as_a_revision_of_what_was_final(settings: Settings) -> None:
    tables = Tables(settings, view_of(tumbling("1 minute")))
    tables.deploy()
    tables.append([Event(MIDNIGHT, "a", 1, MIDNIGHT)])
    follower = Follower(settings, "hits")
    assert final(follower.start()) == []

    def told() -> list[tuple[Any, ...]]:
        move = follower.step()
        rows = [] if move is None else final(move)
        return [(row["host"], row["hits"], row["_status"], row["_change"]) for row in rows]

    tables.append([Event(MIDNIGHT + 11 * MINUTE, "b", 1, MIDNIGHT)])
    assert told() == [("a", 1, "final", "changed")]
    tables.append([Event(MIDNIGHT + 11 * MINUTE, "b", 1, MIDNIGHT)])
    assert told() == []
    tables.append([Event(MIDNIGHT, "a", 1, MIDNIGHT, late=1)])
    assert told() == [("a", 2, "revised", "changed")]


def test_sessions_that_become_one_are_withdrawn(settings: Settings) -> None:
    tables = Tables(settings, view_of(session(gap="30 minutes")))
    tables.deploy()
    tables.append([Event(MIDNIGHT, "a", 1, MIDNIGHT), Event(MIDNIGHT + 40 * MINUTE, "a", 1, MIDNIGHT)])
    follower = Follower(settings, "hits")
    tables.append([Event(MIDNIGHT + 20 * MINUTE, "a", 1, MIDNIGHT)])
    move = follower.step()
    assert move is not None
    assert [(row["window_start"][11:16], row["hits"], row["_change"]) for row in updates(move)] == [
        ("00:40", 1, "withdrawn"),
        ("00:00", 3, "changed"),
    ]


def test_nothing_new_is_nothing_told(settings: Settings) -> None:
    tables = begun(settings, tumbling("1 minute"))
    follower = Follower(settings, "hits")
    assert follower.step() is None
    for act in (tables.fold, tables.optimize, lambda: tables.append([])):
        act()
        assert follower.step() is None


def test_a_commit_costs_as_much_as_the_windows_that_it_touches(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = begun(settings, tumbling("1 minute"))
    tables.append(some_events(1, 500, MIDNIGHT, hours=48))
    follower = Follower(settings, "hits")
    sizes: list[int] = []
    present = arrow.present

    def counting(view: Any, states: pa.Table, *rest: Any) -> pa.Table:
        sizes.append(len(states))
        return present(view, states, *rest)

    monkeypatch.setattr(arrow, "present", counting)
    tables.append([Event(MIDNIGHT, "a", 1, MIDNIGHT + MINUTE)])
    assert follower.step() is not None
    assert max(sizes) < 10


def test_a_promotion_and_a_rollback_are_followed(settings: Settings) -> None:
    tables = begun(settings, tumbling("1 hour"))
    watcher = Watcher(settings)
    other = Tables(settings, view_of(tumbling("1 hour"), where="n > 0"), number=2)
    other.deploy()
    other.append(some_events(7, 30, MIDNIGHT))
    watcher.look()
    assert_knows_everything(watcher, settings)
    for change in (
        lambda dep: promoted(replayed(dep, 2, NOW), 2, NOW),
        lambda dep: rolled_back(dep, NOW),
    ):
        with changing(settings, "hits") as draft:
            draft.value = change(draft.value)
        watcher.look()
        assert_knows_everything(watcher, settings)
    tables.append(some_events(8, 5, MIDNIGHT + MINUTE))
    watcher.look()
    assert_knows_everything(watcher, settings)


def test_commits_that_are_past_their_retention_are_caught_up_with(settings: Settings) -> None:
    from deltalake import DeltaTable

    tables = begun(settings, tumbling("1 hour"))
    watcher = Watcher(settings)
    for epoch in (1, 2, 3):
        tables.append(some_events(epoch, 5, MIDNIGHT + epoch * MINUTE))
    DeltaTable(tables.place.tail).create_checkpoint()
    for version in (0, 1, 2):
        Path(tables.place.tail, "_delta_log", f"{version:020d}.json").unlink()
    watcher.look()
    assert_knows_everything(watcher, settings)


def rebuilt(settings: Settings, old: Tables, leaves_files: bool) -> Tables:
    """Other tables in the same place, of a log that was ingested in an hour before: all events are in the base.

    The old tail, which has them too, is beyond the new cuts. Files of the old ones may stay for a while, as in a store
    that is slow to delete them.
    """
    for table in (old.place.tail, old.place.base):
        shutil.rmtree(f"{table}/_delta_log" if leaves_files else table, ignore_errors=True)
    new = Tables(settings, old.view)
    new.append([replace(event, epoch=event.epoch - 60 * MINUTE) for event in old.events])
    for day in {event.day for event in new.events}:
        new.publish(day, MIDNIGHT - 30 * MINUTE)
    new.collect()
    return new


def events_in(now: Any) -> int:
    return sum(row["hits"] for row in presented(now.snapshot()).to_pylist())


@pytest.mark.parametrize("leaves_files", [True, False], ids=["files stay", "files go"])
def test_a_view_that_is_rebuilt_while_it_is_opened_is_not_mixed_with_what_it_replaced(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, leaves_files: bool
) -> None:
    """The old tail has been read, the new base is: with both, every event would count twice."""
    tables = begun(settings, tumbling("1 hour"))
    made: list[Tables] = []

    def rebuild_first(location: str, *version: int) -> Any:
        if not made:
            made.append(rebuilt(settings, tables, leaves_files))
        return open_table(location, *version)

    open_table = follower.open_table
    monkeypatch.setattr(follower, "open_table", rebuild_first)
    opened = Follower(settings, "hits").now
    assert made
    assert events_in(opened) == len(tables.events)
    assert opened.tail_pinned.table_id == follower.table_id(tables.place.tail)


@pytest.mark.parametrize("leaves_files", [True, False], ids=["files stay", "files go"])
@pytest.mark.parametrize("step", ["_take_commits", "_take_base", "_within_share", "_note", "_are_replaced"])
def test_a_view_that_is_rebuilt_at_any_step_of_a_look_is_not_mixed_with_what_it_replaced(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, step: str, leaves_files: bool
) -> None:
    tables = begun(settings, tumbling("1 hour"))
    monkeypatch.setattr(follower, "SAME_TABLES_EVERY", 0.0)
    one = Follower(settings, "hits")
    tables.append(some_events(1, 7, MIDNIGHT + MINUTE))
    made: list[Tables] = []
    plain = getattr(Follower, step)

    def rebuild_first(self: Follower, *args: Any, **named: Any) -> Any:
        if not made:
            made.append(rebuilt(settings, tables, leaves_files))
        return plain(self, *args, **named)

    monkeypatch.setattr(Follower, step, rebuild_first)
    # A file of the old table that was to be read, and is gone, makes the look fail as a whole: it is repeated.
    with suppress(FileNotFoundError):
        one.step()
    assert made
    assert events_in(one.now) in (30, 37), "as it was before, or all of it"
    one.step()
    assert events_in(one.now) == 37
    made[0].append(some_events(2, 5, MIDNIGHT))
    one.step()
    assert events_in(one.now) == 42


def test_a_view_without_a_table_cannot_be_followed(settings: Settings) -> None:
    Tables(settings, view_of(all_time())).deploy()
    with pytest.raises(BraidError, match="run `braid stream hits`"):
        Follower(settings, "hits")


def test_a_view_that_nobody_publishes_takes_a_level_memory(settings: Settings) -> None:
    """A new day every ten epochs, for sixty days: what is kept does not grow, and no number is lost."""
    tables = begun(settings, tumbling("1 hour"))
    most = 60_000
    memory = BlockCache(most)
    followed = Follower(settings, "hits", memory)
    sizes = []
    for epoch in range(1, 121):
        at = MIDNIGHT + epoch * timedelta(hours=12)
        events = [
            Event(at + minute * MINUTE, str(minute % 50), minute, MIDNIGHT + epoch * MINUTE)
            for minute in range(100)
        ]
        tables.append(events, complete=MIDNIGHT + (epoch - 1) * MINUTE)
        followed.step()
        memory.reserved = followed.now.tail_bytes
        if epoch % 20 == 0:
            by_name(followed.now.view, presented(followed.now.snapshot()))
            sizes.append(memory.bytes + memory.reserved)
    assert max(sizes) <= most
    assert followed.now.tail_bytes <= most
    for anew in (followed, Follower(settings, "hits", BlockCache(0))):
        assert len(anew.now.old_days()) > 30
        rows = presented(anew.now.snapshot())
        assert pc.sum(rows["hits"]).as_py() == len(tables.events)
        assert len(rows) == len(tables.answer())
