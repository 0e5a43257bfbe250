"""A quiet day to learn from, and a morning in which a device fails and another is new."""

import random
from datetime import UTC, datetime, timedelta

from examples.stage.naive import Answer, Event, all_time, answer, average, deviation, least, most, sliding

# Device -> (site, sensor, level, half of its range)
DEVICES = {
    "boiler-1": ("north", "temperature", 64.0, 2.0),
    "boiler-2": ("south", "temperature", 61.0, 1.5),
    "hall-1": ("north", "humidity", 44.0, 5.0),
    "hall-2": ("south", "humidity", 47.0, 4.0),
    "valve-1": ("south", "pressure", 5.2, 0.3),
}
NEW = "valve-2"
QUIET, BUSY = datetime(2026, 3, 9, 8, tzinfo=UTC), datetime(2026, 3, 10, 8, tzinfo=UTC)
FAILS, BACK = BUSY + timedelta(minutes=40), BUSY + timedelta(minutes=46)
EVERY = timedelta(seconds=30)
FIVE_MINUTES = sliding(timedelta(minutes=5), timedelta(minutes=1))


def registry() -> list[str]:
    return ["device,site", *(f"{device},{site}" for device, (site, *_) in DEVICES.items()), f"{NEW},south"]


def quiet_day(seed: int) -> list[Event]:
    """Readings within what is usual."""
    chance = random.Random(seed)
    return [event for n in range(360) for event in _all(QUIET + n * EVERY, chance)]


def busy_morning(seed: int) -> list[Event]:
    """One boiler overheats for some minutes; a new valve, of which nothing is known, swings as it likes."""
    chance = random.Random(seed)
    found = []
    for n in range(160):
        time = BUSY + n * EVERY
        found += _all(time, chance)
        found.append(
            {"device": NEW, "time": time, "sensor": "pressure", "value": round(chance.uniform(0, 9), 2)}
        )
    hot = [event for event in found if event["device"] == "boiler-1" and FAILS <= event["time"] < BACK]
    for n, event in enumerate(hot):
        event["value"] = round(event["value"] + 12 + n, 2)
    return found


def climate(events: list[Event]) -> Answer:
    measures = {
        "readings": len, "mean": average("value"), "least": least("value"), "most": most("value"),
        "spread": deviation("value"),
    }  # fmt: skip
    return answer(events, ["sensor"], FIVE_MINUTES, measures)


def usual(events: list[Event]) -> Answer:
    return answer(events, ["device"], all_time, {"level": average("value"), "deviation": deviation("value")})


def alerts(events: list[Event], model: Answer) -> Answer:
    raised = [
        event | {"site": DEVICES[event["device"]][0]}
        for event in events
        if (known := model.get((event["device"],)))
        and abs(event["value"] - known["level"]) > 5 * known["deviation"]
    ]
    return answer(
        raised, ["site", "device", "sensor"], FIVE_MINUTES, {"alerts": len, "highest": most("value")}
    )


def _all(time: datetime, chance: random.Random) -> list[Event]:
    return [
        {
            "device": device,
            "time": time,
            "sensor": sensor,
            "value": round(chance.uniform(level - room, level + room), 2),
        }
        for device, (_, sensor, level, room) in DEVICES.items()
    ]
