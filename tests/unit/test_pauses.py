"""What a person has paused is kept, does not run, and is seen."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from braid.deploy.store import Pauses, read_pauses, set_pause
from braid.errors import BraidError
from braid.runtime.settings import Settings
from braid.runtime.status import ProcessStatus, QueryStatus, problems
from speed_layer.jobs.runner import Runner
from tests.conftest import Answer


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home))


@dataclass
class Known:
    """As much of a job as is asked of one that may be paused."""

    told: QueryStatus

    def status(self) -> QueryStatus:
        return self.told


def jobs() -> dict[str, Any]:
    told = [
        QueryStatus("ingest requests", "ingest", "running", source="requests"),
        QueryStatus("stream hits v1", "stream", "running", view="hits", source="requests"),
        QueryStatus("stream hits v2", "stream", "running", view="hits", source="requests"),
        QueryStatus("stream visits v1", "stream", "running", view="visits", source="requests"),
    ]
    return {one.name: Known(one) for one in told}


def test_pauses_are_kept_until_they_end(settings: Settings) -> None:
    assert read_pauses(settings) == Pauses()
    set_pause(settings, "stream", ("hits", "visits"), is_paused=True)
    set_pause(settings, "ingest", ("requests",), is_paused=True)
    assert read_pauses(settings) == Pauses(("hits", "visits"), ("requests",))
    set_pause(settings, "stream", ("hits", "never"), is_paused=False)
    assert read_pauses(settings) == Pauses(("visits",), ("requests",))


def test_all_streams_of_a_view_rest_and_are_seen_to(settings: Settings) -> None:
    runner = Runner(None, settings, "engine", lambda: [])  # type: ignore[arg-type]
    assert list(runner._without_paused(jobs())) == list(jobs())
    set_pause(settings, "stream", ("hits",), is_paused=True)
    assert list(runner._without_paused(jobs())) == ["ingest requests", "stream visits v1"]
    assert {(one.name, one.state) for one in runner.resting} == {
        ("stream hits v1", "paused"), ("stream hits v2", "paused")
    }  # fmt: skip
    set_pause(settings, "stream", ("hits",), is_paused=False)
    set_pause(settings, "ingest", ("requests",), is_paused=True)
    assert "ingest requests" not in runner._without_paused(jobs())
    set_pause(settings, "ingest", ("requests",), is_paused=False)
    assert list(runner._without_paused(jobs())) == list(jobs())
    assert runner.resting == ()


def test_what_rests_is_no_problem(settings: Settings) -> None:
    now = datetime.now(UTC)
    resting = QueryStatus("stream hits v1", "stream", "paused", view="hits")
    assert problems([ProcessStatus("engine", os.getpid(), now, now, (resting,))], now) == []


def test_a_damaged_note_says_what_to_do_and_stops_nothing(settings: Settings) -> None:
    Path(settings.location()).mkdir(parents=True)
    Path(settings.location("pauses.json")).write_text("[1]")
    with pytest.raises(BraidError, match="delete it, and pause again"):
        read_pauses(settings)
    runner = Runner(None, settings, "engine", lambda: [])  # type: ignore[arg-type]
    assert list(runner._without_paused(jobs())) == list(jobs())


def test_what_is_not_there_cannot_be_paused(home: Path, braid: Callable[..., Answer]) -> None:
    assert home
    for words, said in (
        (("stream", "pause", "fly"), "there is no view 'fly'"),
        (("ingest", "pause", "fly"), "there is no source 'fly'"),
        (("ingest", "resume"), "needs the name of a source"),
    ):
        done = braid(*words)
        assert done.code == 2
        assert said in done.err
    assert braid("ingest", "pause", "requests").out.startswith("paused: requests.")
    assert braid("stream", "pause", "page_traffic").out.startswith("paused: page_traffic.")
    assert braid("ingest", "resume", "requests").out.startswith("paused: nothing.")
