"""How a command that runs for long is asked to end."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

ENDING = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
# No signal has this number.
GOODBYE = b"\0"


@contextmanager
def stop_on_signals(*, once: bool = False) -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and a closed terminal set, while the block runs.

    With `once` a second signal acts as it did before, for whoever does not want to wait.

    A handler of Python's is not enough: it runs in the main thread, and the kernel may give a signal to any other.
    A main thread that waits is then not woken. What Python writes to the wake-up descriptor it writes at once, in
    whichever thread, and a thread of ours reads it. Whoever had that descriptor before is told too.
    """
    stop = threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    outer = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def watch() -> None:
        numbers = b""
        while GOODBYE not in numbers:
            numbers = os.read(reading, 64)
            if not ENDING.isdisjoint(numbers):
                stop.set()
            # One that is full has been told already.
            with suppress(BlockingIOError):
                if outer != -1:
                    os.write(outer, numbers.rstrip(GOODBYE))

    def handle(*_: object) -> None:
        if once:
            restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, handle) for number in ENDING}
    watcher = threading.Thread(target=watch, name="signals", daemon=True)
    watcher.start()
    try:
        yield stop
    finally:
        restore()
        signal.set_wakeup_fd(outer)
        os.write(writing, GOODBYE)
        watcher.join()
        os.close(writing)
        os.close(reading)
