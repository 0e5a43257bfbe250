"""How often ingest commits: no more often than people can see, and than its streams can take."""

from datetime import timedelta

import pytest

from braid.runtime.settings import Settings
from speed_layer.ingest.job import interval

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("streams", "cores", "seconds"),
    [
        (0, 2, 0.5),
        (1, 2, 0.5),
        (2, 2, 0.5),
        (10, 2, 0.5),
        (20, 2, 0.5),
        (21, 2, 1.0),
        (50, 2, 1.5),
        (50, 16, 0.5),
        (11, 1, 1.0),
    ],
)
def test_streams_that_share_a_core_are_given_time(streams: int, cores: int, seconds: float) -> None:
    assert interval(None, streams, cores) == seconds * SECOND


@pytest.mark.parametrize("asked", ["0 seconds", "250 milliseconds", "10 seconds"])
def test_what_was_asked_for_is_done(asked: str) -> None:
    settings = Settings(trigger=asked)
    assert settings.trigger is not None
    assert interval(settings.trigger, 10, 2) == settings.trigger
