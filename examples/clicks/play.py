"""clicks: two streams are joined, late on either side and sent twice, and the click-through rate is exact.

Three hours of advertisements. A fifth of all events come when the stream no longer waits for them, of showings and of
clicks: it misses their pairs, says so, and batch adds them.
"""

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from braid.examples.clicks import clicked, clicked_per_hour, shown_per_hour
from braid.examples.stage.checks import Played, Shown, against_truth, equal
from braid.examples.stage.naive import Answer, Event, answer, summed, total, tumbling
from braid.examples.stage.stage import Stage

SHOWINGS = 1500
BEGIN, LENGTH = datetime(2026, 3, 5, 9, tzinfo=UTC), timedelta(hours=3)
# The last hour is not late: by then the stream waits for nothing that is older than its ten minutes.
LATE_UNTIL = BEGIN + timedelta(hours=2)
CAMPAIGNS = {"Alpina": 0.05, "Bergwerk": 0.3, "Carpe Diem": 0.15, "Dolce": 0.6}
WITHIN = timedelta(minutes=30)


def showings_and_clicks(number: int, seed: int) -> tuple[list[Event], list[Event]]:
    """Some are clicked at once, some after an hour, which is too long, and some twice."""
    chance = random.Random(seed)
    shown, clicks = [], []
    for n in range(number):
        campaign = chance.choice(list(CAMPAIGNS))
        time = BEGIN + LENGTH * n / number
        cost = Decimal(chance.randrange(1, 900)).scaleb(-4)
        shown.append({"id": f"s{n}", "time": time, "ad_id": f"ad{n}", "campaign": campaign, "cost": cost})
        for again in range(2 if chance.random() < 0.1 else 1):
            if chance.random() < CAMPAIGNS[campaign]:
                after = timedelta(seconds=chance.choice((3, 40, 300, 1800, 1801, 3600)))
                clicks.append({"id": f"c{n}-{again}", "time": time + after, "ad_id": f"ad{n}"})
    # Clicks that nobody was shown anything for.
    clicks += [{"id": f"x{n}", "time": BEGIN + n * timedelta(minutes=1), "ad_id": "ad"} for n in range(20)]
    return shown, clicks


def split(events: list[Event], seed: int) -> tuple[list[Event], list[Event]]:
    """A fifth of what is old enough comes late; a tenth of each part is sent twice, and nothing is in order."""
    chance = random.Random(seed)
    late = [event for event in events if event["time"] < LATE_UNTIL and chance.random() < 0.3]
    ids = {event["id"] for event in late}
    in_time = [event for event in events if event["id"] not in ids]
    parts = [part + chance.sample(part, len(part) // 10) for part in (in_time, late)]
    for part in parts:
        chance.shuffle(part)
    return parts[0], parts[1]


def true_pairs(shown: list[Event], clicks: list[Event]) -> list[Event]:
    """Every showing beside every click of it, by hand."""
    by_ad: dict[str, dict[str, Event]] = defaultdict(dict)
    for one in shown:
        by_ad[one["ad_id"]][one["id"]] = one
    return [
        {
            "time": click["time"], "campaign": one["campaign"], "cost": one["cost"],
            "after": (click["time"] - one["time"]) // timedelta(seconds=1),
        }
        for click in {click["id"]: click for click in clicks}.values()
        for one in by_ad[click["ad_id"]].values()
        if timedelta(0) <= click["time"] - one["time"] <= WITHIN
    ]  # fmt: skip


def true_rows(pairs: list[Event]) -> Answer:
    measures = {"clicks": len, "paid": total("cost"), "seconds": total("after")}
    return answer(pairs, ["campaign"], tumbling(timedelta(hours=1)), measures)


def true_shown(shown: list[Event]) -> Answer:
    once = list({event["id"]: event for event in shown}.values())
    return answer(once, ["campaign"], tumbling(timedelta(hours=1)), {"shown": len, "cost": total("cost")})


def play(stage: Stage) -> Played:
    stage.set(shown_per_hour, clicked_per_hour)
    (shown, late_shown), (clicks, late_clicks) = (
        split(events, seed) for seed, events in enumerate(showings_and_clicks(SHOWINGS, seed=1), 2)
    )
    stage.bring_to({"impressions": shown, "clicks": clicks}, "showings and clicks")
    in_time = true_pairs(shown, clicks)
    before = stage.rows(clicked_per_hour)
    checks = [against_truth("stream, of what came in time", clicked_per_hour, before, true_rows(in_time))]
    stage.bring_to({"impressions": late_shown, "clicks": late_clicks}, "that come too late for the stream")
    every = true_pairs([*shown, *late_shown], [*clicks, *late_clicks])
    missed = stage.derived(clicked)
    checks += [
        against_truth(
            "stream, before batch corrects it", clicked_per_hour, stage.rows(clicked_per_hour), before
        ),
        equal("pairs that the stream missed, as compare says", missed.missing, len(every) - len(in_time)),
        equal("pairs that there are, as compare says", missed.events, len(every)),
        equal("pairs that are wrong", missed.extra + missed.unexplained, 0),
    ]
    added = stage.correct(clicked)
    now = stage.derived(clicked)
    checks += [
        equal("pairs that batch has added", added, missed.missing),
        equal("pairs that are missing now", (now.missing, now.corrected), (0, added)),
        equal("its ledger balances", stage.ledger(clicked)["balanced"], True),
        *stage.three_ways(
            {
                shown_per_hour.name: true_shown([*shown, *late_shown]),
                clicked_per_hour.name: true_rows(every),
            }
        ),
    ]
    return Played((_rates(before, stage.rows(clicked_per_hour), stage.rows(shown_per_hour)),), tuple(checks))


def _rates(before: Answer, after: Answer, shown: Answer) -> Shown:
    in_time, in_all, of = summed(before, 0, "clicks"), summed(after, 0, "clicks"), summed(shown, 0, "shown")
    paid = summed(after, 0, "paid")
    rows = tuple(
        (campaign, of[campaign], in_time[campaign], clicks - in_time[campaign],
         f"{100 * clicks / of[campaign]:.1f} %", paid[campaign])
        for campaign, clicks in in_all.most_common()
    )  # fmt: skip
    columns = ("campaign", "shown", "clicks in time", "clicks added", "rate", "paid")
    return Shown("how often what was shown was clicked", columns, rows, ("clicks in time", "clicks added"))
