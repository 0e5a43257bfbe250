"""Half a day of taps on forty phones, of which some are in a tunnel, or in the mountains, for hours."""

import math
import random
from datetime import UTC, datetime, timedelta

from examples.stage.naive import Answer, Event, answer, different, tumbling

BEGIN, HOURS = datetime(2026, 3, 3, 6, tzinfo=UTC), 12
END = BEGIN + timedelta(hours=HOURS)
PHONES, OFFLINE = 40, 8
ACTIONS = {"open": 5, "search": 4, "like": 4, "buy": 1, "share": 2}


def taps(number: int, seed: int) -> tuple[list[Event], list[Event]]:
    """What comes at once, and what the phones that were offline send in the evening."""
    chance = random.Random(seed)
    made = [_tap(n, _when(n / number), chance) for n in range(number)]
    # The first phones lose the network for three hours, each at another time.
    gone = {f"phone{p}": BEGIN + timedelta(hours=1 + p) for p in range(OFFLINE)}
    late = [e for e in made if e["phone"] in gone and _is_within(e["time"], gone[e["phone"]])]
    ids = {event["id"] for event in late}
    return [event for event in made if event["id"] not in ids], late


def truth(events: list[Event]) -> Answer:
    measures = {"times": len, "phones": different("phone")}
    return answer(events, ["action"], tumbling(timedelta(hours=1)), measures)


def hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)


def are_late(events: list[Event], seen: datetime, lateness: timedelta) -> list[Event]:
    """Those whose hour had been called final when they came."""
    return [event for event in events if hour(event["time"]) + timedelta(hours=1) <= seen - lateness]


def _tap(number: int, time: datetime, chance: random.Random) -> Event:
    phone = f"phone{chance.randrange(PHONES)}"
    (action,) = chance.choices(list(ACTIONS), list(ACTIONS.values()))
    return {"id": f"a{number}", "time": time, "phone": phone, "action": action}


def _when(share: float) -> datetime:
    """People are busiest before noon and in the evening."""
    return BEGIN + (END - BEGIN) * (share + 0.06 * math.sin(4 * math.pi * share))


def _is_within(time: datetime, begin: datetime) -> bool:
    return begin <= time < begin + timedelta(hours=3)
