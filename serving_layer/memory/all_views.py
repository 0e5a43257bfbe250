"""All views in memory: one thread keeps them up to date, and tells those who watch a view what moved in it."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from braid.define.loading import load_definitions
from braid.define.names import suggest
from braid.deploy import store as deployment
from braid.errors import BraidError, NotYet
from braid.runtime import documents
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings
from serving_layer.memory.blocks import BlockCache
from serving_layer.memory.changes import Move
from serving_layer.memory.follower import Follower
from serving_layer.memory.view_in_memory import ViewInMemory

# A look that finds nothing takes a millisecond; a commit is to be visible within a tenth of a second.
PAUSE = 0.04
# Views may be deployed while the server runs.
LOOK_FOR_VIEWS = 2.0
# A follower that has not finished a look for so long stands still: a restart helps, and waiting does not.
STANDS_STILL_AFTER = 15.0
# What is wrong with no view of its own, but with the place where all of them are kept.
STORE = "BRAID_HOME"
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
    # Set by whoever leaves, in an event loop that may not wait for a lock: the follower forgets them when it can.
    has_left: bool = False

    def tell(self, move: Move | None) -> None:
        """None: what moved cannot be told, so read anew."""
        with suppress(RuntimeError):  # the loop has ended, and nobody is there to be told
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
        # Never kept while something is read: who joins or is served waits for nobody.
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._looked = time.monotonic()

    def start(self) -> None:
        self.look_for_views()
        self._looked = time.monotonic()
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
    def since_look(self) -> float:
        """Seconds since a look at all views ended, well or not."""
        return time.monotonic() - self._looked

    def standstill(self) -> str | None:
        """Why the numbers do not move any more; None when they do."""
        if not any(thread.name == "follow" and thread.is_alive() for thread in self._threads):
            return "the thread that follows the views has ended: restart the server."
        if self.since_look > STANDS_STILL_AFTER:
            return f"no look at the views has ended for {self.since_look:.0f} s: restart the server."
        return None

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
        """From here on: the present state, and all moves that come after it."""
        watcher = Watcher(loop)
        with self._lock:
            present = self.now(name)
            self._watchers[name] = [*self._watching(name), watcher]
        return present, watcher

    def step(self) -> None:
        """Takes what is new of every view."""
        for name, follower in list(self._followers.items()):
            # One view that cannot be read must not stop the others, and is tried again.
            with self._complaining(name):
                self._advance(name, follower)

    def look_for_views(self) -> None:
        """Takes views in that were deployed since, and lets go of those that were removed."""
        with self._complaining(STORE):
            present = documents.names(self.settings.location("views"))
            for name in present:
                if name not in self._followers:
                    # One that cannot be read must not keep the others out.
                    with self._complaining(name), suppress(NotYet):  # its stream has not made its tables yet
                        self._take_in(name)
            for name in (self._followers.keys() | self.problems.keys()) - {STORE}:
                if name not in present or self._is_removed(name):
                    self._let_go(name)
            self._weigh()

    def _take_in(self, name: str) -> None:
        if deployment.load(self.settings, name).active is not None:
            self._followers[name] = Follower(self.settings, name, self.memory)

    def _is_removed(self, name: str) -> bool:
        """A deployment that cannot be read says nothing: whoever follows the view complains of it."""
        with suppress(BraidError):
            return deployment.load(self.settings, name).active is None
        return False

    def _let_go(self, name: str) -> None:
        self.problems.pop(name, None)
        with self._lock:
            self._followers.pop(name, None)
            for watcher in self._watching(name):
                watcher.tell(None)

    @contextmanager
    def _complaining(self, name: str) -> Iterator[None]:
        """What fails in here is a problem until it succeeds."""
        try:
            yield
        except Exception as error:
            if self.problems.get(name) != str(error):
                log.warning("a view cannot be followed", view=name, error=str(error))
            self.problems[name] = str(error)
        else:
            self.problems.pop(name, None)

    def _advance(self, name: str, follower: Follower) -> None:
        news = follower.look()
        if news is None:
            return
        # A watcher that joins gets the state before a move and then the move, or the state after it.
        with self._lock:
            follower.now = news.now
            watchers = self._watching(name)
        self._weigh()
        try:
            move = news.move() if watchers else None
        except Exception:
            for watcher in watchers:
                watcher.tell(None)
            raise
        if move is not None:
            for watcher in watchers:
                watcher.tell(move)

    def _watching(self, name: str) -> list[Watcher]:
        return [watcher for watcher in self._watchers.get(name, ()) if not watcher.has_left]

    def _weigh(self) -> None:
        self.memory.tail_share = self.memory.most_bytes // (2 * max(1, len(self._followers)))
        self.memory.reserved = sum(follower.now.tail_bytes for follower in self._followers.values())

    def _follow(self) -> None:
        due = time.monotonic() + LOOK_FOR_VIEWS
        while not self._stop.wait(PAUSE):
            if time.monotonic() >= due:
                self.look_for_views()
                due = time.monotonic() + LOOK_FOR_VIEWS
            self.step()
            self._looked = time.monotonic()

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
                    except Exception as error:
                        # Published anew in this moment, perhaps; it is read when it is asked for.
                        log.info("a day was not read ahead", view=follower.now.view.name, error=str(error))


def _where(now: ViewInMemory) -> dict[str, Any]:
    mark = now.mark
    return {
        "version": now.version.number,
        "tail_version": now.tail_version,
        "base_version": now.base_version,
        "epoch": mark and mark.epoch and mark.epoch.isoformat(),
    }
