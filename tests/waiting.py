"""Waiting for a condition, never for a time."""

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], timeout: float = 300.0) -> None:
    """Returns as soon as the condition holds; a condition that never does is a failure."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.05)
