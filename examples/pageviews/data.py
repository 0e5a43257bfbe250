"""A morning and an afternoon of page views; at noon some users move to another country."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from examples.stage.naive import Answer, Event, answer, tumbling

BEGIN = datetime(2026, 3, 5, 8, tzinfo=UTC)
COUNTRIES = ("France", "Italy", "Kenya", "Peru")
PAGES = ("/", "/news", "/shop", "/help")
USERS = tuple(f"u{n:02d}" for n in range(40))
MOVED_TO = "Portugal"

Users = Mapping[str, str]


def users() -> dict[str, str]:
    return {user: COUNTRIES[n % len(COUNTRIES)] for n, user in enumerate(USERS)}


def moved(before: Users, number: int) -> dict[str, str]:
    """The first so many live elsewhere now."""
    return {user: MOVED_TO if n < number else country for n, (user, country) in enumerate(before.items())}


def views(number: int, hour: int, seed: int) -> list[Event]:
    """Four hours of views."""
    chance = random.Random(seed)
    start = BEGIN + timedelta(hours=hour)
    return [
        {
            "id": f"v{seed}-{n}",
            "time": start + timedelta(hours=4) * n / number,
            "user_id": chance.choice(USERS),
            "page": chance.choice(PAGES),
        }
        for n in range(number)
    ]


def joined(events: list[Event], users: Users) -> list[Event]:
    return [event | {"country": users[event["user_id"]]} for event in events]


def truth(events: list[Event]) -> Answer:
    return answer(events, ["country"], tumbling(timedelta(hours=1)), {"views": len})
