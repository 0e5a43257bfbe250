"""Turns: no client has more than its share of those who answer; one that asks too much is refused, and slowly."""

import asyncio
import random
from dataclasses import dataclass
from functools import partial

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving_layer.http.access import OPEN, with_headers
from serving_layer.http.limits import REFUSED_AFTER, TURN, Limits, Turn
from serving_layer.http.problems import problem


@dataclass
class _Line:
    """The questions of one client: those that are answered or wait for that, and the turns that are not over."""

    turn: asyncio.Semaphore
    length: int = 0
    turns: int = 0


class Turns:
    """Before all else. A turn is over when its answer begins and nobody works on it: a stream of events has none."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._seconds = app, limits.seconds
        self._at_once = limits.at_once_of_one_client
        self._most = self._at_once + limits.of_one_client(limits.waiting)
        self._lines: dict[str, _Line] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        client = scope["client"][0] if scope.get("client") else ""
        line = self._lines.get(client)
        if line is not None and line.length >= self._most:
            await refused_slowly(
                429, f"{self._most} questions of one client wait already.", scope, receive, send
            )
            return
        if line is None:
            line = self._lines[client] = _Line(asyncio.Semaphore(self._at_once))
        line.length += 1
        try:
            if await self._has_turn(line):
                line.turns += 1
                await self._answered(Turn(client, partial(self._over, client, line)), scope, receive, send)
            else:
                late = problem(503, f"its turn did not come within {self._seconds:g} s: ask less at a time.")
                await late(scope, receive, with_headers(send))
        finally:
            line.length -= 1
            self._forget(client, line)

    async def _has_turn(self, line: _Line) -> bool:
        try:
            await asyncio.wait_for(line.turn.acquire(), self._seconds)
        except TimeoutError:
            return False
        return True

    def _over(self, client: str, line: _Line) -> None:
        line.turns -= 1
        line.turn.release()
        self._forget(client, line)

    def _forget(self, client: str, line: _Line) -> None:
        if not line.length and not line.turns:
            self._lines.pop(client, None)

    async def _answered(self, turn: Turn, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False
        TURN.set(turn)

        async def noticing(message: Message) -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                turn.give()
            await send(message)

        try:
            await self._app(scope, receive, noticing)
        finally:
            if not has_begun:
                turn.give()


async def refused_slowly(status: int, reason: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Says so after a moment, and closes the connection."""
    await asyncio.sleep(random.uniform(*REFUSED_AFTER))
    refusal = problem(status, reason)
    refusal.headers["Connection"] = "close"
    await refusal(scope, receive, with_headers(send))
