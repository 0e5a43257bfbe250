"""Follows the views that have sinks or alerts, and runs each of these beside the others, without Spark."""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from braid.define.alerts import Alert
from braid.define.sinks import KafkaSink, PostgresSink, Sink
from braid.define.view import View
from braid.errors import BraidError
from braid.runtime import status
from braid.runtime.lock import alone
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings
from braid.runtime.status import REMOTE_REPORT, SINKS, ProcessStatus
from serving_layer.alerts.alarm import Alarm, AlertSink
from serving_layer.alerts.send import Sending
from serving_layer.memory.blocks import BlockCache
from serving_layer.memory.follower import Follower
from serving_layer.sinks.controls import place_of, read_controls, replay_done
from serving_layer.sinks.delivering import Delivering
from serving_layer.sinks.folder import Folder
from serving_layer.sinks.kafka_topic import KafkaTopic
from serving_layer.sinks.outgoing import Target

PAUSE = 0.05
# How long deliveries may take to come to their end, all of them together.
PATIENCE = 30.0
# How often a person's word and the status are looked after on this machine, and a view that cannot be followed yet.
EVERY = 1.0

log = Logger("sinks")


def target_of(settings: Settings, view: str, sink: Sink) -> Target:
    if isinstance(sink, PostgresSink):
        from serving_layer.sinks.postgres import PostgresTable

        return PostgresTable(sink, view)
    if isinstance(sink, KafkaSink):
        return KafkaTopic(sink, settings, place_of(settings, view, sink.name))
    return Folder(sink, place_of(settings, view, sink.name))


class Following:
    """One view, followed for all its sinks."""

    def __init__(
        self, settings: Settings, view: View, memory: BlockCache, alerts: Sequence[Alert] = ()
    ) -> None:
        self._settings, self._view, self._memory = settings, view, memory
        self._follower: Follower | None = None
        self._again = 0.0
        self._error: str | None = None
        self.sinks = [
            Delivering(view.name, sink, target_of(settings, view.name, sink)) for sink in view.sinks
        ]
        self.sinks += [
            Delivering(view.name, AlertSink(alert), Alarm(alert, settings), "alert") for alert in alerts
        ]

    def step(self) -> None:
        """Takes what is new; what cannot be read is tried again, and then the sinks compare everything."""
        if time.monotonic() < self._again:
            return
        try:
            self._step()
        except Exception as error:
            self._again = time.monotonic() + EVERY
            if str(error) != self._error:
                log.warning("a view cannot be followed", view=self._view.name, error=str(error))
            self._error = str(error)
            for sink in self.sinks:
                sink.compare_anew()
        else:
            self._error = None

    def _step(self) -> None:
        if self._follower is None:
            self._follower = Follower(self._settings, self._view.name, self._memory)
            for sink in self.sinks:
                sink.tell(self._follower.now)
            return
        before = self._follower.now
        move = self._follower.step()
        if self._follower.now is not before:
            for sink in self.sinks:
                sink.tell(self._follower.now, move)

    def obey(self) -> None:
        """What a person has said since; a word that cannot be read changes nothing."""
        try:
            said = read_controls(self._settings, self._view.name)
        except BraidError as error:
            log.error("what a person has said of the sinks cannot be read", reason=str(error))
            return
        for sink in self.sinks:
            is_paused = sink.sink.name in said.paused
            if is_paused != sink.is_paused:
                sink.compare_anew()
            sink.is_paused, sink.is_replay_asked = is_paused, sink.sink.name in said.replay


def run(
    settings: Settings,
    views: Iterable[View],
    alerts: Collection[Alert],
    stop: threading.Event,
    memory_bytes: int = 1 << 28,
) -> None:
    """Until `stop` is set. Each sink, alert and receiver has a thread of its own; one thread follows all views."""
    memory = BlockCache(memory_bytes)
    of_view = {view.name: [alert for alert in alerts if alert.view.name == view.name] for view in views}
    followed = [
        Following(settings, view, memory, of_view[view.name])
        for view in views
        if view.sinks or of_view[view.name]
    ]
    if not followed:
        raise BraidError(
            "no view has sinks or alerts: add one, such as sinks=(postgres('db', table='hits'),)."
        )
    sending = [Sending(alert, receiver, settings) for alert in alerts for receiver in alert.send]
    sinks = [sink for each in followed for sink in each.sinks]
    threads = [_thread(sink.name, partial(_work, settings, sink, stop)) for sink in sinks]
    threads += [_thread(each.name, partial(_send, each, stop)) for each in sending]
    with alone(settings, SINKS, 10.0, _refusal):
        for thread in threads:
            thread.start()
        try:
            _follow(settings, followed, [*sinks, *sending], stop)
        finally:
            stop.set()
            _end(threads)
        for sink, thread in zip(sinks, threads, strict=False):
            if not thread.is_alive():
                sink.target.close()
    status.forget(settings, SINKS)


def _end(threads: Sequence[threading.Thread]) -> None:
    """Those who have not ended by then are left: a delivery may be cut off at any moment."""
    deadline = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _thread(name: str, work: Callable[[], None]) -> threading.Thread:
    return threading.Thread(target=work, name=name, daemon=True)


def _follow(
    settings: Settings,
    followed: Sequence[Following],
    parts: Sequence[Delivering | Sending],
    stop: threading.Event,
) -> None:
    started, due = datetime.now(UTC), 0.0
    every = EVERY if settings.home_is_local else REMOTE_REPORT
    for each in followed:
        each.obey()
    while not stop.wait(PAUSE):
        for each in followed:
            each.step()
        if time.monotonic() >= due:
            for each in followed:
                each.obey()
            found = tuple(part.status() for part in parts)
            status.write(settings, ProcessStatus(SINKS, os.getpid(), started, datetime.now(UTC), found))
            due = time.monotonic() + every


def _send(sending: Sending, stop: threading.Event) -> None:
    while not stop.wait(PAUSE * 2):
        sending.turn()


def _work(settings: Settings, sink: Delivering, stop: threading.Event) -> None:
    """Delivers until told to stop; a replay is asked for in a document, and taken off it when it is done."""
    while not stop.wait(PAUSE):
        is_replay = sink.is_replay_asked
        if sink.turn() and is_replay:
            log.info(f"{sink.name} was delivered again", records=sink.delivered)
            try:
                replay_done(settings, sink.view, sink.sink.name)
                sink.is_replay_asked = False
            except BraidError as error:
                log.error(f"{sink.name} will be delivered once more", reason=str(error))


def _refusal(file: Path) -> BraidError:
    return BraidError(
        f"the sinks of this BRAID_HOME run already in another process, which holds {file}: `braid status` shows it. "
        "Stop it first."
    )
