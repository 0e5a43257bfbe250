"""How a command that runs for long is asked to end."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and a closed terminal set, while the block runs."""
    stop = threading.Event()

    def handle(*_: object) -> None:
        # From a thread of its own: the main one may be within `stop.wait`, and hold the lock that `set` wants.
        threading.Thread(target=stop.set).start()

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
