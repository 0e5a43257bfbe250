"""What a process draws is a function of a key's events alone, and not of how they came or in how many parts."""

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

from braid import Process, Source
from braid.log.stepping import REFUSED, Held, Keyed, advance

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = 60_000_000
pings = Source(
    name="pings", kafka_topic="pings", schema="id string, time timestamp, device string, km int",
    event_time="time", event_id="id",
)  # fmt: skip


def trip(state: Any, events: Any, timer: Any) -> Any:
    """A trip ends when nothing was heard for five minutes."""
    if timer is not None:
        return None, [{"began": state["began"], "km": state["km"]}]
    if any(event["km"] == 13 for event in events):
        raise ValueError("thirteen")
    last = max(event["time"] for event in events)
    km = sum(event["km"] for event in events) + (state["km"] if state else 0)
    return {"began": state["began"] if state else last, "km": km, "timer": last + timedelta(minutes=5)}, []


trips = Process(
    name="trips", source=pings, keys=("device",), step=trip, lateness="15 minutes",
    state="began timestamp, km bigint, timer timestamp", schema="began timestamp, km bigint",
)  # fmt: skip


def held(minute: int, name: str, km: int) -> Held:
    time = NOON + timedelta(minutes=minute)
    body = {"id": name, "time": time.isoformat(), "device": "d", "km": km}
    return Held(int(time.timestamp()) * 1_000_000, name, json.dumps(body))


def twin(events: dict[str, tuple[int, int]], through: int) -> tuple[list[tuple[int, int, int]], int]:
    """(minute of the end, minute of the beginning, km) of each trip, and how many moments are refused, by hand."""
    moments: dict[int, list[int]] = {}
    for minute, km in events.values():
        if minute <= through:
            moments.setdefault(minute, []).append(km)
    good = {minute: sum(kms) for minute, kms in sorted(moments.items()) if 13 not in kms}
    trips_, began, last, total = [], None, 0, 0
    for minute, km in good.items():
        if began is not None and minute > last + 5:
            trips_.append((last + 5, began, total))
            began, total = None, 0
        began, last, total = minute if began is None else began, minute, total + km
    if began is not None and last + 5 <= through:
        trips_.append((last + 5, began, total))
    return trips_, len(moments) - len(good)


def told(drawn: list[Any]) -> tuple[list[tuple[int, int, int]], int]:
    lines = [json.loads(one.line) for one in drawn]

    def minute(text: str) -> int:
        return (datetime.fromisoformat(text) - NOON) // timedelta(minutes=1)

    good = sorted((minute(one["time"]), minute(one["began"]), one["km"]) for one in lines if REFUSED not in one)
    return good, sum(REFUSED in one for one in lines)


def test_events_in_any_order_in_any_parts_and_twice_give_what_a_loop_by_hand_gives() -> None:
    base = int(NOON.timestamp()) * 1_000_000
    found = 0
    for seed in range(200):
        chance = random.Random(seed)
        events = {
            f"e{n}": (chance.randrange(60), chance.choice((1, 2, 3, 13))) for n in range(chance.randrange(1, 25))
        }
        coming = [held(minute, name, km) for name, (minute, km) in events.items()]
        coming += chance.sample(coming, len(coming) // 3)
        coming.sort(key=lambda one: (one.time, chance.random()))
        through = chance.randrange(70)
        whole, at_once = advance(trips, '["d"]', Keyed(), chance.sample(coming, len(coming)), base + through * MINUTE)
        known, before = Keyed(), -1
        streamed: list[Any] = []
        # As a stream does: nothing comes that is behind what was final before.
        for minute in [*sorted(chance.sample(range(through + 1), min(3, through + 1))), through]:
            now = [one for one in coming if before * MINUTE < one.time - base <= (minute + 9) * MINUTE]
            rest = [one for one in coming if one.time - base > before * MINUTE] if minute == through else now
            known, more = advance(trips, '["d"]', known, rest, base + minute * MINUTE)
            streamed, before = streamed + more, minute
        assert told(at_once) == twin(events, through)
        assert [one.id for one in streamed] == [one.id for one in at_once]
        assert known == whole
        assert len({one.id for one in at_once}) == len(at_once)
        found += len(at_once)
    assert found > 300
