"""billing: what each campaign owes is exact to the cent, whatever comes late or twice.

Five minutes of advertisements; some events are sent twice, and some come minutes late.
"""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from braid.examples.billing import campaign_bills
from braid.examples.stage.checks import Played, Shown, equal
from braid.examples.stage.naive import Answer, Event, answer, summed, total, tumbling
from braid.examples.stage.stage import Stage

EVENTS = 4000
BEGIN, LENGTH = datetime(2026, 3, 4, 20, tzinfo=UTC), timedelta(minutes=5)
CAMPAIGNS = ("Alpina", "Bergwerk", "Carpe Diem", "Dolce", "Estrella", "Fjord", "Gaudi", "Hygge")
# Ten advertisements of each campaign.
CAMPAIGN_OF = {f"ad{n:03d}": CAMPAIGNS[n % len(CAMPAIGNS)] for n in range(10 * len(CAMPAIGNS))}


def table() -> list[str]:
    return ["ad,campaign", *(f"{ad},{campaign}" for ad, campaign in CAMPAIGN_OF.items())]


def ad_events(number: int, seed: int) -> tuple[list[Event], list[Event], list[Event]]:
    """What comes in time, what comes late, and copies of both that a client sends again."""
    chance = random.Random(seed)
    made = [_event(n, BEGIN + LENGTH * n / number, chance) for n in range(number)]
    late = [event for event in made if chance.random() < 0.05]
    ids = {event["id"] for event in late}
    in_time = [event for event in made if event["id"] not in ids]
    return in_time, late, chance.sample(in_time, number // 20) + chance.sample(late, len(late) // 4)


def true_rows(events: list[Event]) -> Answer:
    once = {event["id"]: event for event in events}.values()
    views = [event | {"campaign": CAMPAIGN_OF[event["ad"]]} for event in once if event["kind"] == "view"]
    measures = {"views": len, "cost": total("price")}
    return answer(views, ["campaign"], tumbling(timedelta(seconds=10)), measures)


def _event(number: int, time: datetime, chance: random.Random) -> Event:
    (kind,) = chance.choices(("view", "click", "purchase"), (80, 15, 5))
    price = Decimal(chance.randrange(1, 900)).scaleb(-4)
    return {
        "id": f"b{number}",
        "time": time,
        "ad": chance.choice(list(CAMPAIGN_OF)),
        "kind": kind,
        "price": price,
    }


def play(stage: Stage) -> Played:
    stage.set(campaign_bills)
    stage.write("tables/campaigns.csv", table())
    in_time, late, again = ad_events(EVENTS, seed=1)
    stage.bring("events", in_time)
    before = summed(stage.rows(campaign_bills), 0, "cost")
    stage.bring("that are minutes late, or sent for the second time", [*late, *again])
    after = stage.rows(campaign_bills)
    views, costs = summed(after, 0, "views"), summed(after, 0, "cost")
    truth = true_rows([*in_time, *late])
    owed = sum(costs.values(), Decimal(0))
    checks = [
        equal("all bills together", owed, sum((row["cost"] for row in truth.values()), Decimal(0))),
        equal("events that were sent twice, and billed once", stage.duplicates(), len(again)),
        *stage.three_ways({campaign_bills.name: truth}),
    ]
    rows = tuple(
        (campaign, views[campaign], before[campaign], cost - before[campaign], cost)
        for campaign, cost in costs.most_common()
    )
    columns = ("campaign", "views", "in time", "late", "owes")
    return Played((Shown("what each campaign owes", columns, rows, ("in time", "late")),), tuple(checks))
