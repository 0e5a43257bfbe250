"""Turns: no client has more than its share of those who answer; one that asks too much is refused, and slowly."""

import asyncio
import random
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving_layer.http.access import OPEN, with_headers
from serving_layer.http.limits import Limits
from serving_layer.http.problems import problem

# A refusal comes after so many seconds. Who asks again at once would otherwise keep the server busy with refusing; and
# those who were refused together do not come back together.
REFUSED_AFTER = (0.5, 1.5)


@dataclass
class _Line:
    """The questions of one client: those that are answered, and those that wait for them."""

    turn: asyncio.Semaphore
    length: int = 0


class Turns:
    """Before all else. A question's turn is over when its answer begins: a stream of events holds up nobody."""

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
                await self._answered(line, scope, receive, send)
            else:
                late = problem(503, f"its turn did not come within {self._seconds:g} s: ask less at a time.")
                await late(scope, receive, with_headers(send))
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[client]

    async def _has_turn(self, line: _Line) -> bool:
        try:
            await asyncio.wait_for(line.turn.acquire(), self._seconds)
        except TimeoutError:
            return False
        return True

    async def _answered(self, line: _Line, scope: Scope, receive: Receive, send: Send) -> None:
        is_over = False

        def over() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                line.turn.release()

        async def noticing(message: Message) -> None:
            over()
            await send(message)

        try:
            await self._app(scope, receive, noticing)
        finally:
            over()


async def refused_slowly(status: int, reason: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Says so after a moment, and closes the connection."""
    await asyncio.sleep(random.uniform(*REFUSED_AFTER))
    refusal = problem(status, reason)
    refusal.headers["Connection"] = "close"
    await refusal(scope, receive, with_headers(send))
