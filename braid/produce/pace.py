"""Sends no faster than asked, and stops when told to."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from braid.produce.record import Record

# Shorter waits cost more than they give: a timer is not more exact than this.
_SHORTEST_WAIT = 0.005


def paced(
    records: Iterator[Record], rate: float, clock: Callable[[], float], wait: Callable[[float], object]
) -> Iterator[Record]:
    """The records at `rate` a second, measured from the first one, so that a hiccup is caught up; 0 is no limit."""
    if rate == 0:
        yield from records
        return
    start = clock()
    for number, record in enumerate(records):
        ahead = number / rate - (clock() - start)
        if ahead > _SHORTEST_WAIT:
            wait(ahead)
        yield record


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets.

    An exception in the middle of a send would leave a record of which nobody knows whether it was sent.
    The second signal acts as usual, for whoever does not want to wait.
    """
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()
        restore()

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        restore()
