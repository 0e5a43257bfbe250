"""Maintenance that was done a moment ago is not done again, unless a table is new to it."""

from datetime import timedelta
from pathlib import Path

from braid.examples.weblog import requests
from braid.runtime.settings import Settings
from braid.tables.maintenance import done_within, remember
from tests.serving import SOURCE

HOUR = timedelta(hours=1)


def test_what_was_done_lately_is_remembered_for_its_sources(home: Path) -> None:
    settings = Settings(home=str(home))
    assert done_within(settings, HOUR, [requests]) is None
    remember(settings, [requests])
    assert done_within(settings, HOUR, [requests]) is not None
    assert done_within(settings, timedelta(0), [requests]) is None
    assert done_within(settings, HOUR, []) is None


def test_a_source_that_was_never_maintained_is_due(home: Path) -> None:
    settings = Settings(home=str(home))
    remember(settings, [requests])
    other = type(SOURCE)(name="other", files="/tmp/*.csv", schema="time timestamp", event_time="time")
    assert done_within(settings, HOUR, [requests, other]) is None
