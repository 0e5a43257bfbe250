"""Follows the views that have sinks, and runs each sink beside the others, without Spark, until it is stopped."""

import os
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from braid.define.sinks import KafkaSink, PostgresSink, Sink
from braid.define.view import View
from braid.errors import BraidError
from braid.runtime import status
from braid.runtime.lock import locked
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings
from braid.runtime.status import SINKS, ProcessStatus
from serving_layer.memory.blocks import BlockCache
from serving_layer.memory.follower import Follower
from serving_layer.sinks.controls import place_of, read_controls, replay_done
from serving_layer.sinks.delivering import Delivering
from serving_layer.sinks.folder import Folder
from serving_layer.sinks.kafka_topic import KafkaTopic
from serving_layer.sinks.outgoing import Target
from serving_layer.sinks.postgres import PostgresTable

PAUSE = 0.05
# How often a person's word and the status are looked after, and a view that cannot be followed yet.
EVERY = 1.0

log = Logger("sinks")


def target_of(settings: Settings, view: str, sink: Sink) -> Target:
    if isinstance(sink, PostgresSink):
        return PostgresTable(sink, view)
    if isinstance(sink, KafkaSink):
        return KafkaTopic(sink, settings, place_of(settings, view, sink.name))
    return Folder(sink)


class Following:
    """One view, followed for all its sinks."""

    def __init__(self, settings: Settings, view: View, memory: BlockCache) -> None:
        self._settings, self._view, self._memory = settings, view, memory
        self._follower: Follower | None = None
        self._again = 0.0
        self._error: str | None = None
        self.sinks = [
            Delivering(view.name, sink, target_of(settings, view.name, sink)) for sink in view.sinks
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
                sink.tell(self._follower.now, move, before.version.number)

    def obey(self) -> None:
        """What a person has said since."""
        said = read_controls(self._settings, self._view.name)
        for sink in self.sinks:
            is_paused = sink.sink.name in said.paused
            if is_paused != sink.is_paused:
                sink.compare_anew()
            sink.is_paused = is_paused


def run(
    settings: Settings, views: Iterable[View], stop: threading.Event, memory_bytes: int = 1 << 28
) -> None:
    """Until `stop` is set. Each sink delivers in a thread of its own; one thread follows all views."""
    memory = BlockCache(memory_bytes)
    followed = [Following(settings, view, memory) for view in views if view.sinks]
    if not followed:
        raise BraidError("no view has sinks: add one, such as sinks=(postgres('warehouse', table='hits'),).")
    with ExitStack() as held:
        if settings.home_is_local:
            held.enter_context(locked(Path(settings.local_home()) / "drivers" / SINKS, 10.0, _refusal))
        sinks = [sink for each in followed for sink in each.sinks]
        threads = [
            threading.Thread(target=_work, args=(settings, sink, stop), name=sink.name, daemon=True)
            for sink in sinks
        ]
        _follow(settings, followed, threads, stop)
        for sink in sinks:
            sink.target.close()
    status.forget(settings, SINKS)


def _follow(
    settings: Settings,
    followed: Sequence[Following],
    threads: Sequence[threading.Thread],
    stop: threading.Event,
) -> None:
    started, due = datetime.now(UTC), 0.0
    try:
        while not stop.wait(PAUSE):
            for each in followed:
                each.step()
            if time.monotonic() >= due:
                for each in followed:
                    each.obey()
                found = tuple(sink.status() for each in followed for sink in each.sinks)
                status.write(settings, ProcessStatus(SINKS, os.getpid(), started, datetime.now(UTC), found))
                due = time.monotonic() + EVERY
                for thread in threads:
                    if thread.ident is None:
                        thread.start()
    finally:
        stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join(60.0)


def _work(settings: Settings, sink: Delivering, stop: threading.Event) -> None:
    """Delivers until told to stop; a replay is asked for in a document, and taken off it when it is done."""
    looked = 0.0
    replay = False
    while not stop.wait(PAUSE):
        if time.monotonic() - looked >= EVERY:
            looked = time.monotonic()
            replay = sink.sink.name in read_controls(settings, sink.view).replay
        if sink.turn(replay) and replay:
            replay_done(settings, sink.view, sink.sink.name)
            log.info(f"{sink.name} was delivered again", records=sink.delivered)
            replay = False


def _refusal(file: Path) -> BraidError:
    return BraidError(
        f"the sinks of this BRAID_HOME run already in another process, which holds {file}: `braid status` shows it. "
        "Stop it first."
    )
