"""Versions are compared at an epoch that all of them hold, and streams that run are waited for."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from braid import comparable, tumbling
from braid.comparable import PATIENCE, is_streamed, when_comparable
from braid.deploy.store import set_pause
from braid.deploy.versions import Version
from braid.errors import NotYet
from braid.runtime import status
from braid.runtime.settings import Settings
from braid.runtime.status import ENGINE, ProcessStatus, QueryStatus
from tests.serving import MIDNIGHT, MINUTE, Tables, some_events, view_of

BEHIND = r"the versions of view 'hits' cannot be compared yet: one is complete up to .*, and the base of another covers"


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home))


@pytest.fixture
def ahead(settings: Settings) -> tuple[Version, Tables]:
    """A version whose base covers more than its tail is complete to, as after a batch run beside a dead engine."""
    tables = Tables(settings, view_of(tumbling("1 minute")))
    version = tables.deploy()
    events = some_events(0, 30, MIDNIGHT)
    tables.append(events, complete=MIDNIGHT)
    tables.publish(events[0].day, MIDNIGHT + MINUTE)
    return version, tables


def engine(settings: Settings, process: str = ENGINE, age: timedelta = timedelta(0), view: str = "") -> None:
    """As a process says of itself that it runs, or ran when it died."""
    at = datetime.now(UTC) - age
    queries = (QueryStatus(f"stream {view} v1", "stream", "running", view=view),) if view else ()
    status.write(settings, ProcessStatus(process, os.getpid(), at, at, queries))


def as_it_is(cut: datetime) -> datetime:
    return cut


def when_looked_for(monkeypatch: pytest.MonkeyPatch, times: int, happens: Callable[[], None]) -> list[bool]:
    """Something happens while it is waited; gives what was answered each time."""
    looked, real = list[bool](), is_streamed

    def look(settings: Settings, view: str) -> bool:
        if len(looked) == times:
            happens()
        looked.append(real(settings, view))
        return looked[-1]

    monkeypatch.setattr(comparable, "is_streamed", look)
    monkeypatch.setattr(comparable, "LOOK", 0.01)
    return looked


def test_what_no_stream_moves_is_said_at_once(settings: Settings, ahead: tuple[Version, Tables]) -> None:
    with pytest.raises(NotYet, match=BEHIND):
        when_comparable(settings, [ahead[0]], as_it_is, timedelta(days=1))


def test_a_stream_that_is_behind_is_waited_for(
    settings: Settings, ahead: tuple[Version, Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    version, tables = ahead
    engine(settings)
    epoch = MIDNIGHT + 2 * MINUTE
    looked = when_looked_for(monkeypatch, 2, lambda: tables.append([], complete=epoch))
    assert when_comparable(settings, [version], as_it_is) == epoch
    assert looked == [True] * 3


def test_a_stream_that_stays_behind_is_waited_for_no_longer_than_the_patience(
    settings: Settings, ahead: tuple[Version, Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(settings)
    looked = when_looked_for(monkeypatch, -1, lambda: None)
    with pytest.raises(NotYet, match=BEHIND):
        when_comparable(settings, [ahead[0]], as_it_is, timedelta(seconds=0.2))
    assert len(looked) > 1


def test_a_wait_ends_when_the_engine_is_stopped(
    settings: Settings, ahead: tuple[Version, Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(settings)
    looked = when_looked_for(monkeypatch, 2, lambda: status.forget(settings, ENGINE))
    with pytest.raises(NotYet, match=BEHIND):
        when_comparable(settings, [ahead[0]], as_it_is, timedelta(days=1))
    assert looked == [True, True, False]


def test_a_base_that_goes_on_before_it_is_read_is_read_at_a_later_cut(settings: Settings) -> None:
    tables = Tables(settings, view_of(tumbling("1 minute")))
    version, day = tables.deploy(), MIDNIGHT.date()
    tables.append(some_events(0, 30, MIDNIGHT), complete=MIDNIGHT)
    tables.publish(day, MIDNIGHT)
    tried: list[datetime] = []

    def read(cut: datetime) -> datetime:
        tried.append(cut)
        if len(tried) == 1:
            tables.append(some_events(1, 30, MIDNIGHT + MINUTE), complete=MIDNIGHT + MINUTE)
            tables.publish(day, MIDNIGHT + MINUTE)
            raise NotYet("it covers more by now")
        return cut

    assert when_comparable(settings, [version], read) == MIDNIGHT + MINUTE
    assert tried == [MIDNIGHT, MIDNIGHT + MINUTE]


def test_a_view_is_streamed_by_the_engine_or_by_a_process_of_its_own(settings: Settings) -> None:
    assert not is_streamed(settings, "hits")
    engine(settings, "stream-visits", view="visits")
    engine(settings, "sinks")
    assert not is_streamed(settings, "hits")
    assert is_streamed(settings, "visits")
    engine(settings)
    assert is_streamed(settings, "hits")
    set_pause(settings, "stream", ("hits",), is_paused=True)
    assert not is_streamed(settings, "hits")


def test_an_engine_that_died_is_expected_back_for_a_while(settings: Settings) -> None:
    engine(settings, age=PATIENCE / 2)
    assert is_streamed(settings, "hits")
    engine(settings, age=2 * PATIENCE)
    assert not is_streamed(settings, "hits")
