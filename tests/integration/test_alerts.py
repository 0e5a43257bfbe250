"""Alerts as people have them: within two seconds, once, and the same when a day is replayed."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from braid import Alert, tumbling, webhook
from braid.log.table import Log
from braid.runtime.settings import Settings
from serving_layer.alerts.journal import newest_of_each, read_journal
from serving_layer.sinks.run import run
from tests.conftest import Answer
from tests.hook import Hook, a_hook
from tests.serving import MIDNIGHT, MINUTE, Event, Tables, view_of
from tests.sinks import Listening
from tests.streams import Feed, requests, run_once, some, traffic
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


def test_a_replay_of_the_day_says_nothing_new_and_alone_says_the_same(
    spark: Any, home: Path, tmp_path: Path, braid: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=str(home), spark_master="local[2]", kafka_bootstrap="127.0.0.1:1")
    file = tmp_path / "definitions.py"
    file.write_text(
        "from dataclasses import replace\nfrom tests import streams\n"
        "traffic = replace(streams.traffic, lateness='2 minutes')\n"
    )
    monkeypatch.setenv("BRAID_DEFINITIONS", str(file))
    view = replace(traffic, lateness="2 minutes")
    alerts = [
        Alert(name="quiet_page", view=view, when="hits <= 2"),
        Alert(name="busy_page", view=view, when="hits >= 3", for_="2 windows"),
        Alert(name="busy_now", view=view, when="hits >= 5", on="updates"),
    ]
    feed = Feed(spark, Log(requests, settings))
    listening = list[Listening]()
    for minute in range(0, 20, 4):
        feed.commit(some(60, minute), minute)
        run_once(spark, settings, view)
        listening = listening or [Listening(settings, alert) for alert in alerts]
        for each in listening:
            each.hear()
    feed.beat(21)
    run_once(spark, settings, view)
    for each in listening:
        each.hear()
    before = read_journal(settings)
    # A day with everything in it: wrong at first, corrected later.
    assert {entry["change"] for entry in before} == {"fired", "resolved", "corrected"}
    live, live_over = standing(settings), standing(settings, "resolved")

    assert braid("kappa", "replay", "traffic").code == 0
    promoted = braid("kappa", "promote", "traffic")
    assert promoted.code == 0, promoted.err
    for each in listening:
        each.hear()
        assert each.follower.now.version.number == 2
    assert read_journal(settings) == before

    shutil.move(home / "alerts", tmp_path / "what-was-said-live")
    for alert in alerts:
        Listening(settings, alert)
    assert standing(settings) == live
    # What was over stays over, also when late events make one row of two: a replay knows only the one row.
    assert standing(settings, "resolved") <= live_over
    assert {entry["version"] for entry in read_journal(settings)} == {2}


def standing(settings: Settings, state: str | None = None) -> set[tuple[Any, ...]]:
    """Where each alert has fired and is not taken back, and under which id; of those in a state, if it is given."""
    return {
        (entry["alert"], entry["id"], entry["keys"]["url"], entry["window_start"])
        for entry in newest_of_each(read_journal(settings))
        if entry["fires"] and state in (None, entry["state"])
    }
