"""All views in memory: one thread keeps them up to date, and tells those who watch a view what moved in it."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from braid.define.loading import load_definitions
from braid.define.names import suggest
from braid.deploy import store as deployment
from braid.errors import BraidError, NotYet
from braid.runtime.logging import Log as Logger
from braid.runtime.settings import Settings
from braid.tables import documents
from serving_layer.memory.blocks import BlockCache
from serving_layer.memory.changes import Move
from serving_layer.memory.follower import Follower
from serving_layer.memory.view_in_memory import ViewInMemory

# A look that finds nothing takes a millisecond; a commit is to be visible within a tenth of a second.
PAUSE = 0.04
# Views may be deployed while the server runs.
LOOK_FOR_VIEWS = 2.0
# Moves that wait for a watcher; one that is further behind reads anew.
WAITING = 64

log = Logger("serve")


class UnknownView(BraidError):
    """There is no view of this name."""


class NotDeployed(BraidError):
    """The view is defined, and nothing has filled it yet."""


@dataclass
class Watcher:
    """Somebody who is told of every move of a view, in an event loop of their own."""

    loop: asyncio.AbstractEventLoop
    queue: "asyncio.Queue[Move | None]" = field(default_factory=lambda: asyncio.Queue(WAITING))

    def tell(self, move: Move | None) -> None:
        self.loop.call_soon_threadsafe(self._put, move)

    def _put(self, move: Move | None) -> None:
        if self.queue.full():
            # What waits is of no use without what does not fit: None says so.
            while not self.queue.empty():
                self.queue.get_nowait()
            move = None
        self.queue.put_nowait(move)


class AllViews:
    """One thread looks for news of all views; every answer is of one moment."""

    def __init__(self, settings: Settings, most_bytes: int) -> None:
        self.settings = settings
        self.memory = BlockCache(most_bytes)
        self.definitions = load_definitions(settings.definitions)
        self.problems: dict[str, str] = {}
        self._followers: dict[str, Follower] = {}
        self._watchers: dict[str, list[Watcher]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        self.look_for_views()
        works: dict[str, Callable[[], None]] = {"follow": self._follow, "warm": self._warm}
        for name, work in works.items():
            thread = threading.Thread(target=work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    @property
    def names(self) -> list[str]:
        """The views that are defined, and those that are only deployed."""
        return sorted({*self.definitions.views, *self._followers})

    def now(self, name: str) -> ViewInMemory:
        follower = self._followers.get(name)
        if follower is not None:
            return follower.now
        if name not in self.definitions.views:
            raise UnknownView(f"there is no view {name!r}. {suggest(name, self.names, 'views')}")
        raise NotDeployed(f"view {name!r} has no numbers yet: run `braid stream {name}`, or `braid up`.")

    def versions(self) -> dict[str, dict[str, Any]]:
        """Where each view stands; what it says moves with every commit."""
        return {name: _where(follower.now) for name, follower in sorted(self._followers.items())}

    def watch(self, name: str, loop: asyncio.AbstractEventLoop) -> tuple[ViewInMemory, Watcher]:
        """From here on: the present state, and all moves that come after it. It may wait for a look to end."""
        watcher = Watcher(loop)
        with self._lock:
            present = self.now(name)
            self._watchers.setdefault(name, []).append(watcher)
        return present, watcher

    def unwatch(self, name: str, watcher: Watcher) -> None:
        with self._lock:
            self._watchers[name].remove(watcher)

    def step(self) -> None:
        """Takes what is new of every view."""
        for name, follower in list(self._followers.items()):
            try:
                self._advance(name, follower)
                self.problems.pop(name, None)
            except Exception as error:
                # One view that cannot be read must not stop the others, and is tried again.
                self._complain(name, error)

    def look_for_views(self) -> None:
        """Takes views in that were deployed since; one that cannot be read must not keep the others out."""
        for name in documents.names(self.settings.location("views")):
            if name in self._followers:
                continue
            try:
                if deployment.load(self.settings, name).active is not None:
                    self._followers[name] = Follower(self.settings, name, self.memory)
                self.problems.pop(name, None)
            except NotYet:
                # Deployed, and its stream has not made its tables yet.
                continue
            except Exception as error:
                self._complain(name, error)
        self._weigh()

    def _complain(self, name: str, error: Exception) -> None:
        if self.problems.get(name) != str(error):
            log.warning("a view cannot be followed", view=name, error=str(error))
        self.problems[name] = str(error)

    def _advance(self, name: str, follower: Follower) -> None:
        # A watcher that joins gets the state before a move and then the move, or the state after it.
        with self._lock:
            watchers = list(self._watchers.get(name, ()))
            change = follower.advance()
        if change is None:
            return
        self._weigh()
        move = change.move() if watchers else None
        if move is not None:
            for watcher in watchers:
                watcher.tell(move)

    def _weigh(self) -> None:
        self.memory.reserved = sum(follower.now.tail_bytes for follower in self._followers.values())

    def _follow(self) -> None:
        waited = 0.0
        while not self._stop.wait(PAUSE):
            waited += PAUSE
            if waited >= LOOK_FOR_VIEWS:
                waited = 0.0
                self.look_for_views()
            self.step()

    def _warm(self) -> None:
        """Reads the newest days first, until memory is full: the first question need not wait for them."""
        largest = 0
        for follower in list(self._followers.values()):
            for day in reversed(follower.now.days()):
                for level in (None, *follower.now.levels()):
                    if self._stop.is_set() or not self.memory.has_room_for(largest):
                        return
                    try:
                        largest = max(largest, follower.now.block(day, level).nbytes)
                    except (KeyError, OSError):
                        # Published anew in this moment; it is read when it is asked for.
                        continue


def _where(now: ViewInMemory) -> dict[str, Any]:
    mark = now.mark
    return {
        "version": now.version.number,
        "tail_version": now.tail_version,
        "base_version": now.base_version,
        "epoch": mark and mark.epoch and mark.epoch.isoformat(),
    }
