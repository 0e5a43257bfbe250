"""Alerts as people have them: within two seconds, and once."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from braid import Alert, tumbling, webhook
from braid.runtime.settings import Settings
from serving_layer.sinks.run import run
from tests.hook import Hook, a_hook
from tests.serving import MIDNIGHT, MINUTE, Event, Tables, view_of
from tests.waiting import until

WITHIN = 2.0
TIMES = 15


@contextmanager
def judging(settings: Settings, alert: Alert) -> Iterator[None]:
    """The process of sinks and alerts, in a thread."""
    stop = threading.Event()
    worker = threading.Thread(target=run, args=(settings, [alert.view], [alert], stop))
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join(60)


def test_an_alert_reaches_its_receiver_within_two_seconds_of_its_number_and_once(home: Path) -> None:
    settings = Settings(home=str(home))
    view = view_of(tumbling("1 minute"), lateness="1 minute")
    tables = Tables(settings, view)
    tables.deploy()

    def append(minute: int, number: int) -> None:
        epoch = MIDNIGHT + minute * MINUTE
        tables.append([Event(epoch, "a", 1, epoch) for _ in range(number)], complete=epoch - MINUTE)

    append(0, 1)
    alert = Alert(name="busy", view=view, when="hits >= 3", on="updates", send=(webhook("ops"),))
    with a_hook() as hook, judging(settings, alert):
        until((home / "alerts" / "busy" / "began.json").exists, 60)
        took = []
        for minute in range(1, TIMES + 1):
            append(minute, 3)
            began = time.monotonic()
            until(lambda minute=minute: len(fired(hook)) == minute, 30)
            took.append(hook.at[-1] - began)
        # Another look at the same numbers, and numbers that change without changing the verdict, say nothing.
        append(TIMES, 5)
        append(TIMES + 1, 3)
        until(lambda: len(fired(hook)) == TIMES + 1, 30)
    print(f"from the number to the receiver: {sorted(took)[TIMES // 2]:.2f} s, at most {max(took):.2f} s")
    assert max(took) <= WITHIN
    assert len({body["id"] for body in fired(hook)}) == len(fired(hook))
    assert [body["window_start"] for body in fired(hook)] == [
        (MIDNIGHT + minute * MINUTE).isoformat() for minute in range(1, TIMES + 2)
    ]


def fired(hook: type[Hook]) -> list[dict[str, Any]]:
    return [body for _, body in hook.got if body["change"] == "fired"]
