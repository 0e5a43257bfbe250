"""A crowd for a server: many connections of some clients, each of which asks again as soon as it is answered.

A process of its own, `python -m bench.shared.crowd`, so that asking takes no time from who measures beside it.
"""

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from typing import Any
from urllib.parse import urlsplit


class Told:
    """What the crowd was answered: how often each status, refusals that do not say when to come back, and times."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.without_retry_after = 0
        self.seconds: list[float] = []

    def take(self, status: int, head: bytes, seconds: float) -> None:
        self.statuses[str(status)] += 1
        if status in (429, 503):
            self.without_retry_after += b"retry-after:" not in head.lower()
        elif status == 200:
            self.seconds.append(seconds)


class Member(asyncio.Protocol):
    """One connection, which asks one of the questions at a time."""

    def __init__(self, host: str, paths: list[str], told: Told) -> None:
        self._requests = [f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() for path in paths]
        self._told, self._buffer, self._wanted = told, bytearray(), -1
        self._status, self._head = 0, b""
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(random.choice(self._requests))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._wanted < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._head = bytes(self._buffer[:end])
            self._status = int(self._head[9:12])
            length = self._head.lower().partition(b"content-length:")[2]
            self._wanted = end + 4 + int(length.partition(b"\r\n")[0])
        if len(self._buffer) >= self._wanted:
            self._told.take(self._status, self._head, time.perf_counter() - self._began)
            self._buffer.clear()
            self._wanted = -1
            if b"connection: close" not in self._head.lower():
                self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.gone.done():
            self.gone.set_result(None)


async def _stays(address: str, client: str, paths: list[str], told: Told) -> None:
    """One of the crowd that is turned away comes back at once."""
    parts = urlsplit(address)
    loop = asyncio.get_running_loop()
    while True:
        try:
            _, member = await loop.create_connection(
                lambda: Member(parts.netloc, paths, told),
                str(parts.hostname), parts.port, local_addr=(client, 0),
            )  # fmt: skip
        except OSError:
            told.statuses["no connection"] += 1
            await asyncio.sleep(0.1)
        else:
            await member.gone


async def crowd(address: str, clients: int, connections: int, seconds: float, paths: list[str]) -> Told:
    told = Told()
    everybody = [
        asyncio.create_task(_stays(address, f"127.0.2.{number % clients + 1}", paths, told))
        for number in range(connections)
    ]
    await asyncio.sleep(seconds)
    for one in everybody:
        one.cancel()
    await asyncio.gather(*everybody, return_exceptions=True)
    return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--clients", type=int, default=1, help="addresses that they come from")
    parser.add_argument("--connections", type=int, default=1, help="of all of them")
    parser.add_argument("--seconds", type=float, default=10.0)
    chosen = parser.parse_args()
    found = asyncio.run(
        crowd(chosen.address, chosen.clients, chosen.connections, chosen.seconds, chosen.paths)
    )
    answered = sorted(found.seconds)
    print(
        json.dumps(
            {
                "statuses": found.statuses,
                "without_retry_after": found.without_retry_after,
                "p50": answered[len(answered) // 2] if answered else None,
                "p99": answered[len(answered) * 99 // 100] if answered else None,
            }
        )
    )
