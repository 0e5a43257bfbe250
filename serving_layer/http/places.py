"""Places where questions are answered: who has had least goes first, and when too many wait, who asks most goes."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

from serving_layer.http.problems import Refused

# What a client has had counts half after so many seconds.
HALF_LIFE = 5.0
# So many seconds of work are little, whatever others have had, and a hundredth of that is forgotten.
LITTLE = 0.05
FORGET_EVERY = 1.0


class Crowded(Refused):
    """So many wait that one of them has to go."""


class Work:
    """How many seconds of a processor each client has had, the less the longer ago. Only in the event loop."""

    def __init__(self) -> None:
        self._had: dict[str, tuple[float, float]] = {}
        self._forgot = time.monotonic()

    def add(self, client: str, seconds: float) -> None:
        now = time.monotonic()
        self._had[client] = self.of(client) + seconds, now
        if now - self._forgot > FORGET_EVERY:
            self._forgot = now
            self._had = {name: had for name, had in self._had.items() if self.of(name) > LITTLE / 100}

    def of(self, client: str) -> float:
        seconds, at = self._had.get(client, (0.0, 0.0))
        return seconds * 0.5 ** ((time.monotonic() - at) / HALF_LIFE) if seconds else 0.0

    def little(self) -> float:
        """Less than half of what they have had on average."""
        had = [self.of(client) for client in self._had]
        return max(LITTLE, sum(had) / (2 * len(had))) if had else LITTLE


@dataclass(eq=False)
class _Waiting:
    client: str
    begins: "asyncio.Future[None]"


class Places:
    """The last free one is kept for clients that have had little: somebody who asks now and then finds it free.

    Only in the event loop: nothing comes between a look and what follows from it.
    """

    def __init__(self, number: int, waiting: int, work: Work) -> None:
        self._number, self._most_waiting, self._work = number, waiting, work
        self._running: Counter[str] = Counter()
        self._waiting: list[_Waiting] = []

    async def take(self, client: str) -> None:
        """Returns when the client has a place, which it gives back; refused if others are to wait instead."""
        one = _Waiting(client, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        self._begin_others()
        if len(self._waiting) > self._most_waiting:
            # Of equals the newest.
            self._refuse(max(reversed(self._waiting), key=self._asks))
        try:
            await one.begins
        except asyncio.CancelledError:
            if one in self._waiting:
                self._waiting.remove(one)
            elif not one.begins.cancelled() and one.begins.exception() is None:
                self.give(client, 0.0)
            raise

    def give(self, client: str, seconds: float) -> None:
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]
        self._work.add(client, seconds)
        self._begin_others()

    def _begin_others(self) -> None:
        while self._waiting and self._number > self._running.total():
            one = min(self._waiting, key=self._asks)
            if not self._may_begin(one.client):
                return
            self._waiting.remove(one)
            self._running[one.client] += 1
            one.begins.set_result(None)

    def _may_begin(self, client: str) -> bool:
        free = self._number - self._running.total()
        return free > 1 or (free == 1 and (self._number == 1 or self._work.of(client) < self._work.little()))

    def _refuse(self, one: _Waiting) -> None:
        self._waiting.remove(one)
        said = f"{self._most_waiting} questions wait already: ask again in a moment."
        one.begins.set_exception(Crowded(503, said))

    def _asks(self, one: _Waiting) -> float:
        return self._work.of(one.client)
