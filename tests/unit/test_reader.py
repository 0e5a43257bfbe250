"""What is served is every event once: from the base, or from the tail beyond its day's cut."""

import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from braid import all_time, count, session, sliding, tumbling
from braid.define.windows import Session, Window
from braid.errors import BraidError
from braid.runtime.settings import Settings
from serving_layer.answer import reader
from serving_layer.answer.answers import (
    Reading,
    ask,
    ask_top,
    document,
)
from serving_layer.answer.numbers import KNOWN, numbers
from serving_layer.answer.reader import FromTables, active_version, read
from serving_layer.answer.request import (
    Ranking,
    Request,
    parse_request,
    scope_of,
)
from serving_layer.memory.blocks import BlockCache
from serving_layer.memory.follower import Follower
from tests.serving import MIDNIGHT, MINUTE, Event, Tables, filled, naive, some_events, view_of

WINDOWS = {
    "1 minute": tumbling("1 minute"),
    "1 hour": tumbling("1 hour"),
    "3 hours every hour": sliding("3 hours", every="1 hour"),
    "1 day every 6 hours": sliding("1 day", every="6 hours"),
    "2 days": tumbling("2 days"),
    "session": session(gap="30 minutes"),
    "all time": all_time(),
}
BOUNDED = {name: window for name, window in WINDOWS.items() if name != "all time"}


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home))


def as_answers(view: Any, rows: pa.Table) -> dict[Any, dict[str, Any]]:
    known_by = [n for n in (*view.keys, "window_start", "window_end") if n in rows.column_names]
    numbers = [name for name in rows.column_names if name not in known_by and name not in KNOWN]
    found = {tuple(row[n] for n in known_by): {n: row[n] for n in numbers} for row in rows.to_pylist()}
    assert len(found) == len(rows), "a window was presented twice"
    return found


def served(tables: Tables) -> dict[Any, dict[str, Any]]:
    return as_answers(tables.view, numbers(read(tables.settings, active_version(tables.settings, "hits"))))


def readings(settings: Settings) -> list[Reading]:
    """From the tables, and from memory: with all of it there, and with none of it kept."""
    version = active_version(settings, "hits")
    held = [Follower(settings, "hits", BlockCache(most_bytes)).now for most_bytes in (1 << 30, 0)]
    return [FromTables(settings, version), *held]


def begun_between(tables: Tables, start: datetime | None, end: datetime | None) -> dict[str | None, int]:
    """Events of panes, or of sessions, that begin in a range, by hand."""
    window = tables.view.window
    pieces = window if isinstance(window, Session) else tumbling(window.pane)
    found: dict[str | None, int] = {}
    for (host, begins, _), row in tables.answer(pieces).items():
        if (start is None or begins >= start) and (end is None or begins < end):
            found[host] = found.get(host, 0) + row["hits"]
    return found


@pytest.mark.parametrize(
    "collected", [False, True], ids=["covered rows in the tail", "covered rows collected"]
)
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_numbers_equal_those_of_all_events(settings: Settings, window: Window, collected: bool) -> None:
    tables = filled(settings, window, collected)
    assert served(tables) == tables.answer()
    for reading in readings(settings):
        assert as_answers(tables.view, ask(reading, Request()).rows) == tables.answer()


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_view_without_keys_is_served_like_any_other(settings: Settings, window: Window) -> None:
    tables = filled(settings, window, keys=())
    assert served(tables) == tables.answer()


def test_events_at_the_same_instant_are_in_the_same_session(settings: Settings) -> None:
    tables = Tables(settings, view_of(session(gap="30 minutes")))
    tables.deploy()
    for epoch in (MIDNIGHT, MIDNIGHT + MINUTE):
        tables.append(some_events(1, 300, epoch))
    assert served(tables) == tables.answer()


@pytest.mark.parametrize("window", BOUNDED.values(), ids=BOUNDED)
def test_a_request_reads_less_and_answers_the_same(settings: Settings, window: Window) -> None:
    tables = filled(settings, window)
    version = active_version(settings, "hits")
    everything = read(settings, version)
    less = 0
    for hours in (-15, -3, 0, 1.99, 2, 3.5, 24, 40):
        start = MIDNIGHT + timedelta(hours=hours)
        for request in (
            Request(start, start + timedelta(hours=5)),
            Request(start, None, {"host": ("a", None)}),
            Request(None, start, {"host": ("",)}),
        ):
            some = read(settings, version, scope_of(tables.view, request))
            less += len(some.tail) < len(everything.tail)
            wanted = {
                known: found
                for known, found in tables.answer().items()
                if (request.start is None or known[1] >= request.start)
                and (request.end is None or known[1] < request.end)
                and ("host" not in request.where or known[0] in request.where["host"])
            }
            for reading in readings(settings):
                assert as_answers(tables.view, ask(reading, request).rows) == wanted
    assert less


@pytest.mark.parametrize("grain", ["1 hour", "6 hours", "1 day", "7 days"])
@pytest.mark.parametrize("size", ["1 minute", "1 hour"])
def test_a_grain_gives_windows_of_that_length(settings: Settings, size: str, grain: str) -> None:
    tables = filled(settings, tumbling(size))
    for reading in readings(settings):
        asked = ask(reading, parse_request(tables.view, grain=grain))
        assert as_answers(tables.view, asked.rows) == tables.answer(tumbling(grain))


@pytest.mark.parametrize("window", [w for w in WINDOWS.values() if not isinstance(w, Session)], ids=str)
def test_numbers_over_all_keys_are_those_of_a_view_without_keys(settings: Settings, window: Window) -> None:
    tables = filled(settings, window)
    alone = naive(replace(tables.view, keys=()), tables.events, tables.mark)
    for reading in readings(settings):
        asked = ask(reading, parse_request(tables.view, group=""))
        assert as_answers(replace(tables.view, keys=()), asked.rows) == alone


@pytest.mark.parametrize("window", BOUNDED.values(), ids=BOUNDED)
def test_the_largest_of_a_range_count_each_event_once(settings: Settings, window: Window) -> None:
    tables = filled(settings, window)
    for hours in ((-15, 50), (0, 24), (0, 48), (3, 30), (5, 6), (-24, 3), (None, 24), (23, None)):
        start, end = (None if h is None else MIDNIGHT + timedelta(hours=h) for h in hours)
        request = Request(start, end)
        counted = begun_between(tables, start, end)
        best = sorted(counted.items(), key=lambda each: (-each[1], each[0] is None, each[0]))
        for reading in readings(settings):
            given = ask_top(reading, request, Ranking("hits", 3, "range"))
            rows = [(row["host"], row["hits"]) for row in given.rows.to_pylist()]
            assert [hits for _, hits in rows] == [hits for _, hits in best[:3]]
            assert set(rows) <= set(best)
            assert given.rows["_rank"].to_pylist() == list(range(1, len(rows) + 1))


def test_the_largest_of_each_window_are_ranked_in_it(settings: Settings) -> None:
    tables = filled(settings, tumbling("1 hour"))
    want: dict[Any, list[int]] = {}
    for (_, start, _), row in tables.answer().items():
        want.setdefault(start, []).append(row["hits"])
    for reading in readings(settings):
        given = ask_top(reading, Request(), Ranking("hits", 2, "window"))
        found: dict[Any, list[int]] = {}
        for row in given.rows.to_pylist():
            found.setdefault(row["window_start"], []).append(row["hits"])
        assert found == {start: sorted(hits, reverse=True)[:2] for start, hits in want.items()}


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_publish_between_reading_tail_and_base_changes_no_number(
    settings: Settings, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = filled(settings, window)
    version = active_version(settings, "hits")
    want = tables.answer()
    old_base = reader.pin_base(settings, version)

    def publish_first(settings: Settings, version: Any) -> Any:
        for day in {event.day for event in tables.events}:
            tables.publish(day, MIDNIGHT + 3 * MINUTE)
        tables.collect()
        return old(settings, version)

    old = reader.pin_base
    monkeypatch.setattr(reader, "pin_base", publish_first)
    assert as_answers(tables.view, numbers(read(settings, version))) == want
    # The other order would have been a dip, so this test can fail.
    dip = numbers(reader.snapshot(version, reader.pin_tail(settings, version), old_base))
    assert as_answers(tables.view, dip) != want


def test_tables_that_are_rebuilt_between_the_two_are_not_mixed_with_the_old_ones(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same events, all in the old tail, and all in the new base, which covers an hour before: both count them."""
    view = view_of(tumbling("1 hour"))
    events = some_events(1, 40, MIDNIGHT)
    old, new = Tables(settings, view), Tables(settings, view)
    version = old.deploy()
    old.append(events)

    def rebuild_first(settings: Settings, version: Any) -> Any:
        if not new.events:
            # Its files stay for a while, as in a store that is slow to delete them.
            shutil.rmtree(f"{new.place.tail}/_delta_log")
            new.append([replace(event, epoch=event.epoch - 60 * MINUTE) for event in events])
            for day in {event.day for event in events}:
                new.publish(day, MIDNIGHT - 30 * MINUTE)
            new.collect()
        return pin_base(settings, version)

    pin_base = reader.pin_base
    monkeypatch.setattr(reader, "pin_base", rebuild_first)
    assert as_answers(view, numbers(read(settings, version))) == new.answer()


def test_an_empty_day_has_a_cut_and_no_numbers(settings: Settings) -> None:
    tables = Tables(settings, view_of(tumbling("1 hour")))
    tables.deploy()
    tables.append([Event(MIDNIGHT, "a", 1, MIDNIGHT)])
    tables.publish((MIDNIGHT + timedelta(days=3)).date(), MIDNIGHT)
    assert served(tables) == tables.answer()
    provenance = document(ask(FromTables(settings, active_version(settings, "hits")), Request()))[
        "provenance"
    ]
    assert provenance["base_through"] == [
        {"first_day": "2024-03-13", "last_day": "2024-03-13", "through": "2024-03-10T00:00:00-05:00"}
    ]


def test_a_filter_that_fits_no_row_of_the_base_does_not_hide_the_cut_of_its_day(settings: Settings) -> None:
    tables = Tables(settings, view_of(tumbling("1 hour")))
    tables.deploy()
    tables.append([Event(MIDNIGHT, "a", 1, MIDNIGHT), Event(MIDNIGHT, "b", 1, MIDNIGHT + MINUTE)])
    tables.publish(MIDNIGHT.date(), MIDNIGHT)
    request = parse_request(tables.view, where=["host=b"])
    some = read(settings, active_version(settings, "hits"), scope_of(tables.view, request))
    assert (len(some.base), len(some.tail)) == (0, 1)
    assert some.through == {MIDNIGHT.date(): MIDNIGHT}


def test_the_answer_says_how_much_of_it_comes_from_where(settings: Settings) -> None:
    tables = filled(settings, tumbling("1 hour"))
    given = document(
        ask(FromTables(settings, active_version(settings, "hits")), parse_request(tables.view, limit=1))
    )
    cuts = tables.through
    covered = sum(event.epoch <= cuts.get(event.day, event.epoch - MINUTE) for event in tables.events)
    assert given["total"] == len(tables.answer())
    assert len(given["rows"]) == 1
    assert given["provenance"] | {"base_through": None} == {
        "base_through": None,
        "tail_epoch": "2024-03-10T00:04:00-05:00",
        "complete": None,
        "replaying": False,
        "base_events": covered,
        "tail_events": len(tables.events) - covered,
    }


def test_numbers_are_provisional_while_history_is_being_read(settings: Settings) -> None:
    tables = filled(settings, tumbling("1 hour"))
    statuses = {row["_status"] for row in served(tables).values()}
    assert statuses == {"provisional", "final", "revised"}
    tables.append([], replaying=True)
    assert {row["_status"] for row in served(tables).values()} == {"provisional"}


def test_commits_of_others_do_not_hide_what_the_stream_said(settings: Settings) -> None:
    tables = filled(settings, tumbling("1 hour"))
    tables.optimize()
    assert read(settings, active_version(settings, "hits")).mark == tables.mark
    assert served(tables) == tables.answer()


def test_measures_may_have_any_name(settings: Settings) -> None:
    measures = {"late": count(), "in_tail": count(), "events": count(), "events_": count()}
    tables = filled(settings, tumbling("1 hour"), measures=measures)
    want = naive(tables.view, tables.events, tables.mark)
    found = served(tables)
    assert {known: row["late"] for known, row in found.items()} == {k: row["hits"] for k, row in want.items()}
    assert all(row["late"] == row["in_tail"] == row["events"] == row["events_"] for row in found.values())


def test_a_view_that_is_not_there_yet_names_the_command_that_makes_it(settings: Settings) -> None:
    settings = Settings(home=settings.home, definitions="braid.examples.weblog")
    with pytest.raises(BraidError, match=r"not deployed.*`braid stream visits`"):
        active_version(settings, "visits")
    with pytest.raises(BraidError, match=r"there is no view 'visitz'\. Did you mean 'visits'"):
        active_version(settings, "visitz")
    version = Tables(settings, view_of(all_time())).deploy()
    with pytest.raises(BraidError, match="no table for its version 1 yet: run `braid stream hits`"):
        read(settings, version)


def test_tables_are_read_as_the_deployed_definition_says(settings: Settings) -> None:
    tables = filled(settings, tumbling("1 hour"))
    version = replace(active_version(settings, "hits"), view=view_of(sliding("2 hours", every="1 hour")))
    want = tables.answer(version.view.window)
    assert as_answers(version.view, numbers(read(settings, version))) == want
