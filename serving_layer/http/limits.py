"""What questions may cost, the threads that answer them a few at a time, and how many streams may be open."""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import duckdb

from braid.define.durations import format_duration
from braid.define.windows import DAY
from braid.states.database import Stoppable
from serving_layer.http.metrics import ServerMetrics
from serving_layer.http.places import Crowded, Places, Work
from serving_layer.http.problems import Refused
from serving_layer.memory.view_in_memory import ViewInMemory

# How soon work that nobody waits for is told to stop again: a query may just have begun.
STOP_AGAIN = 0.05
# A refusal comes after so many seconds. Who asks again at once would otherwise keep the server busy with refusing; and
# those who were refused together do not come back together.
REFUSED_AFTER = (0.5, 1.5)
# A question of more states than this takes long and much memory: such ones are answered apart, few at a time.
LARGE = 200_000


@dataclass(frozen=True)
class Limits:
    """What one question may cost, how many are answered at a time and may wait, and what may be open.

    One client may have a quarter of the streams and connections: one that takes too many does not shut others out.
    """

    states: int = 10_000_000
    seconds: float = 10.0
    # Threads that share one interpreter: more than there are processors would only make each other slower.
    at_once: int = field(default_factory=lambda: max(2, os.cpu_count() or 1))
    waiting: int = 64
    streams: int = 256
    connections: int = 512

    def of_one_client(self, number: int) -> int:
        return max(1, number // 4)

    @property
    def at_once_of_one_client(self) -> int:
        """Half of those who answer: whoever else asks finds one that is free."""
        return max(1, self.at_once // 2)


class Turn:
    """A client's right to be answered: held while its answer is waited for, and while anybody works on it."""

    def __init__(self, client: str, release: Callable[[], None]) -> None:
        self.client, self._release, self._held = client, release, 1

    def hold(self) -> None:
        self._held += 1

    def give(self) -> None:
        """Only in the event loop."""
        self._held -= 1
        if not self._held:
            self._release()


TURN: ContextVar[Turn | None] = ContextVar("turn", default=None)


@dataclass(frozen=True)
class Large:
    """The rest of an answer that takes long: whoever has found that out leaves it to others."""

    work: Callable[[], Any]


class Lane:
    """Threads that answer, and the places that they are."""

    def __init__(self, name: str, number: int, waiting: int, had: Work) -> None:
        self.places = Places(number, waiting, had)
        # A thread is free when its work has ended, whether somebody still waits for it or not.
        self.threads = ThreadPoolExecutor(number, name)

    def submit(self, client: str, work: Callable[[], Any]) -> Future[Any]:
        """For who has a place, which is free again when the work has ended."""
        loop, seconds = asyncio.get_running_loop(), [0.0]

        def timed() -> Any:
            began = time.thread_time()
            try:
                return work()
            finally:
                # Of the processor: who is kept waiting by others has not had it.
                seconds[0] = time.thread_time() - began

        def ended(_: Future[Any]) -> None:
            with suppress(RuntimeError):
                # The loop has ended, and with it all places.
                loop.call_soon_threadsafe(self.places.give, client, seconds[0])

        future = self.threads.submit(timed)
        future.add_done_callback(ended)
        return future


class Answering:
    """Answers questions in threads, a few at a time, each within its limits."""

    def __init__(self, limits: Limits, metrics: ServerMetrics) -> None:
        self.limits, self._metrics = limits, metrics
        had = Work()
        self._quick = Lane("answer", limits.at_once, limits.waiting, had)
        self._large = Lane("large", max(1, limits.at_once // 4), limits.waiting, had)

    async def run(self, route: str, work: Callable[[], Any]) -> Any:
        with self._metrics.timing(route):
            try:
                async with asyncio.timeout(self.limits.seconds):
                    found = await self._answered(self._quick, work)
                    return (
                        await self._answered(self._large, found.work) if isinstance(found, Large) else found
                    )
            except TimeoutError:
                raise Refused(
                    503,
                    f"no answer within {self.limits.seconds:g} s: ask for a shorter range or a longer grain.",
                ) from None
            except duckdb.OutOfMemoryException:
                raise Refused(
                    413,
                    "the answer needs more memory than there is: ask for a shorter range or for some keys.",
                ) from None
            except Crowded:
                await asyncio.sleep(random.uniform(*REFUSED_AFTER))
                raise

    async def _answered(self, lane: Lane, work: Callable[[], Any]) -> Any:
        turn = TURN.get()
        client = turn.client if turn else ""
        await lane.places.take(client)
        stoppable = Stoppable()
        future = lane.submit(client, partial(stoppable.run, work))
        _held_until(future, turn)
        try:
            return await asyncio.wrap_future(future)
        finally:
            _stop(stoppable, future)

    def close(self) -> None:
        for lane in (self._quick, self._large):
            lane.threads.shutdown(wait=False, cancel_futures=True)

    def by_size(self, now: ViewInMemory, cost: int, of_some_keys: bool, work: Callable[[], Any]) -> Any:
        """The answer, or where it takes long, the work that is left to do."""
        self.require_affordable(now, cost)
        # Of other keys than those that are asked for, states are passed over.
        return Large(work) if cost > (LARGE * 10 if of_some_keys else LARGE) else work()

    def require_affordable(self, now: ViewInMemory, cost: int) -> None:
        if cost > self.limits.states:
            pane = getattr(now.view.window, "pane", DAY)
            raise Refused(
                413,
                f"about {cost:,} states would be merged, and {self.limits.states:,} may be: ask for a shorter range, "
                f"for some keys, or for a longer grain than {format_duration(pane)}.",
                "start",
            )


def _held_until(future: Future[Any], turn: Turn | None) -> None:
    """The turn is not over while a thread works on it, whoever has gone."""
    if turn is None:
        return
    turn.hold()
    loop = asyncio.get_running_loop()

    def over(_: Future[Any]) -> None:
        with suppress(RuntimeError):
            # The loop has ended, and with it all turns.
            loop.call_soon_threadsafe(turn.give)

    future.add_done_callback(over)


def _stop(stoppable: Stoppable, future: Future[Any]) -> None:
    """Nobody waits any more: work that has not ended is stopped, again and again until it has."""
    if not future.done():
        stoppable.stop()
        asyncio.get_running_loop().call_later(STOP_AGAIN, _stop, stoppable, future)


class OpenStreams:
    """Counts streams of events, which have no end: so many of one client, and in all."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: Counter[str] = Counter()

    @contextmanager
    def one_more(self, client: str) -> Iterator[None]:
        """Only in the event loop: nothing comes between the look and the count."""
        most = self._limits.of_one_client(self._limits.streams)
        if self._open[client] >= most:
            raise Refused(429, f"{most} streams of one client are open already: close one.")
        if self._open.total() >= self._limits.streams:
            raise Refused(503, f"{self._limits.streams} streams are open already: ask again later.")
        self._open[client] += 1
        try:
            yield
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]
