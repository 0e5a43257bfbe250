"""actions: events that come hours late are counted in the hour in which they happened, and the number says so.

Half a day of taps on forty phones, of which some are in a tunnel, or in the mountains, for hours.
"""

import math
import random
from datetime import UTC, datetime, timedelta

from braid.examples.actions import actions_per_hour
from braid.examples.stage.checks import Played, Shown, against_truth, equal
from braid.examples.stage.naive import Answer, Event, answer, different, summed, tumbling
from braid.examples.stage.stage import Stage

TAPS = 3000
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


def true_rows(events: list[Event]) -> Answer:
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


def play(stage: Stage) -> Played:
    stage.set(actions_per_hour)
    online, late = taps(TAPS, seed=1)
    stage.bring("taps of phones that are online", online)
    before = stage.rows(actions_per_hour)
    stage.bring("taps of phones that were offline for hours", late)
    after, said = stage.rows(actions_per_hour), stage.provenance(actions_per_hour)
    seen = max(event["time"] for event in online)
    judged = are_late(late, seen, actions_per_hour.patience)
    revised = {(event["action"], hour(event["time"])) for event in judged}
    checks = [
        against_truth("before the phones were back", actions_per_hour, before, true_rows(online)),
        equal("taps that came after their hour was final", said["late_events"], len(judged)),
        equal(
            "hours of an action that were final, and were revised", said["windows"]["revised"], len(revised)
        ),
        *stage.three_ways({actions_per_hour.name: true_rows([*online, *late])}),
    ]
    return Played((_hours(before, after),), tuple(checks))


def _hours(before: Answer, after: Answer) -> Shown:
    on_time, in_all = summed(before, 1, "times"), summed(after, 1, "times")
    zone = actions_per_hour.source.zone
    rows = tuple(
        (f"{start.astimezone(zone):%H:%M}", on_time[start], in_all[start] - on_time[start], in_all[start])
        for start in sorted(in_all)
    )
    columns = ("hour in Paris", "on time", "hours late", "times")
    return Shown(
        "what people did, by the hour in which they did it", columns, rows, ("on time", "hours late")
    )
