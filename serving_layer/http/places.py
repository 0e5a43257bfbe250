"""Places where questions are answered: who has had least goes first, and when too many wait, who asks most goes."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

from serving_layer.http.problems import Refused

# What a client has had counts half after so many seconds.
HALF_LIFE = 5.0
# The last free place is kept for clients that have had less than so many seconds of work: somebody who asks now and
# then finds it free, however many ask without a pause.
LITTLE = 0.25
# Clients that are remembered, before those that have had next to nothing are forgotten.
REMEMBERED = 1024


class Crowded(Refused):
    """So many wait that one of them has to go."""


@dataclass(eq=False)
class _Waiting:
    client: str
    begins: "asyncio.Future[None]"


class Places:
    """Only in the event loop: nothing comes between a look and what follows from it."""

    def __init__(self, number: int, waiting: int) -> None:
        self._number, self._most_waiting = number, waiting
        self._running: Counter[str] = Counter()
        self._waiting: list[_Waiting] = []
        self._had: dict[str, tuple[float, float]] = {}

    async def take(self, client: str) -> None:
        """Returns when the client has a place, which it gives back; refused if others are to wait instead."""
        if not self._waiting and self._may_begin(client):
            self._running[client] += 1
            return
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
        self._had[client] = self._has_had(client) + seconds, time.monotonic()
        if len(self._had) > REMEMBERED:
            self._had = {name: had for name, had in self._had.items() if self._has_had(name) > LITTLE / 100}
        self._begin_others()

    def _begin_others(self) -> None:
        while True:
            able = [one for one in self._waiting if self._may_begin(one.client)]
            if not able:
                return
            one = min(able, key=lambda one: (self._running[one.client], self._has_had(one.client)))
            self._waiting.remove(one)
            self._running[one.client] += 1
            one.begins.set_result(None)

    def _may_begin(self, client: str) -> bool:
        free = self._number - self._running.total()
        return free > 1 or (free == 1 and (self._number == 1 or self._has_had(client) < LITTLE))

    def _refuse(self, one: _Waiting) -> None:
        self._waiting.remove(one)
        said = f"{self._most_waiting} questions wait already: ask again in a moment."
        one.begins.set_exception(Crowded(503, said))

    def _asks(self, one: _Waiting) -> tuple[int, float]:
        waiting = sum(other.client == one.client for other in self._waiting)
        return self._running[one.client] + waiting, self._has_had(one.client)

    def _has_had(self, client: str) -> float:
        """Seconds of work, the less the longer ago."""
        seconds, at = self._had.get(client, (0.0, 0.0))
        return seconds * 0.5 ** ((time.monotonic() - at) / HALF_LIFE) if seconds else 0.0
