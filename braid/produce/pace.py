"""Sends no faster than asked."""

from collections.abc import Callable, Iterator

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
