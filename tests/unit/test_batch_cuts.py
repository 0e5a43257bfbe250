"""The cut of a run: never before the end of its day, and the same for all its tasks."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from batch_layer import arrivals as cuts
from batch_layer.arrivals import cut_after, end_of, pinned
from braid import Source
from braid.errors import NotYet
from braid.log.table import Log
from braid.runtime.settings import Settings

DAY = date(2026, 3, 8)


def source(zone: str) -> Source:
    name = zone.rsplit("/", maxsplit=1)[-1].lower()
    return Source(name=name, kafka_topic=name, schema="time timestamp", event_time="time", timezone=zone)


def test_a_day_ends_where_its_source_is() -> None:
    # The clocks of New York go forward on this day: it has 23 hours.
    assert end_of(DAY, source("America/New_York")) == datetime(2026, 3, 9, 4, tzinfo=UTC)
    assert end_of(DAY, source("UTC")) == datetime(2026, 3, 9, tzinfo=UTC)


def test_a_cut_waits_for_the_end_of_the_day_in_every_zone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=str(home))
    closed = {"utc": datetime(2026, 3, 9, 4, tzinfo=UTC), "new_york": datetime(2026, 3, 9, 3, 58, tzinfo=UTC)}
    monkeypatch.setattr(cuts, "closed_epoch", lambda log: closed[log.source.name])
    both = [source("UTC"), source("America/New_York")]
    with pytest.raises(NotYet, match="'new_york' ends at 2026-03-09T00:00:00-04:00"):
        cut_after(settings, both, DAY)
    # The epoch that starts a minute before the end, ends with it.
    closed["new_york"] += timedelta(minutes=1)
    assert cut_after(settings, both, DAY) == closed["new_york"]


def test_a_log_that_is_not_there_has_no_cut(home: Path) -> None:
    settings = Settings(home=str(home))
    assert cuts.closed_epoch(Log(source("UTC"), settings)) is None
    with pytest.raises(NotYet, match="braid ingest utc"):
        cuts.closed_in_all(settings, [source("UTC")])


def test_a_run_keeps_the_cut_that_it_was_given_first(home: Path) -> None:
    settings = Settings(home=str(home))
    first = datetime(2026, 3, 9, tzinfo=UTC)
    name = "daily_batch/scheduled__2026-03-08T00:00:00+00:00"
    assert pinned(settings, name, None) is None
    assert pinned(settings, name, first) == first
    assert pinned(settings, name, first + timedelta(hours=1)) == first
    assert pinned(settings, f"{name}x", None) is None
