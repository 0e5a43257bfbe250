"""Places where questions are answered are shared fairly: who asks now and then goes before who asks without a pause."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from serving_layer.http.places import Crowded, Places, Work


def played(number: int, waiting: int, play: Callable[[Places, Work], Awaitable[None]]) -> None:
    async def run() -> None:
        had = Work()
        await play(Places(number, waiting, had), had)

    asyncio.run(run())


async def begun(*asked: "asyncio.Task[Any]") -> list[bool]:
    """Which of them have a place, after everything that can happen has."""
    for _ in range(5):
        await asyncio.sleep(0)
    return [one.done() for one in asked]


def test_the_last_place_is_for_who_has_had_little() -> None:
    async def play(places: Places, had: Work) -> None:
        had.add("greedy", 1.0)
        had.add("also greedy", 1.0)
        await places.take("greedy")
        waits = asyncio.create_task(places.take("also greedy"))
        assert await begun(waits) == [False]
        seldom = asyncio.create_task(places.take("seldom"))
        assert await begun(waits, seldom) == [False, True]
        places.give("greedy", 0.1)
        assert await begun(waits) == [False], "one is left for others like it"
        places.give("seldom", 0.01)
        assert await begun(waits) == [True]

    played(2, 8, play)


def test_of_those_who_wait_the_one_that_has_had_least_is_next_and_the_one_that_has_had_most_goes() -> None:
    async def play(places: Places, had: Work) -> None:
        for client, seconds in (("much", 3.0), ("some", 2.0), ("less", 1.0)):
            had.add(client, seconds)
        await places.take("less")
        much, some = (asyncio.create_task(places.take(client)) for client in ("much", "some"))
        assert await begun(much, some) == [False, False]
        new = asyncio.create_task(places.take("new"))
        assert await begun(much, some, new) == [True, False, False]
        with pytest.raises(Crowded, match="2 questions wait"):
            await much
        places.give("less", 0.1)
        assert await begun(some, new) == [False, True]

    played(1, 2, play)


def test_a_place_of_who_has_gone_is_free() -> None:
    async def play(places: Places, had: Work) -> None:
        await places.take("a")
        gone, next_one = (asyncio.create_task(places.take(client)) for client in "bc")
        await begun(gone)
        places.give("a", 0.0)
        # It has the place by now, and does not know it yet.
        gone.cancel()
        assert await begun(gone, next_one) == [True, True]
        assert gone.cancelled()
        waits = asyncio.create_task(places.take("d"))
        await begun(waits)
        waits.cancel()
        await begun(waits)
        places.give("c", 0.0)
        await places.take("e")

    played(1, 2, play)
