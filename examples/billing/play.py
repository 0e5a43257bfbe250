"""billing: what each campaign owes is exact to the cent, whatever comes late or twice."""

from decimal import Decimal

from braid.log.table import Log
from braid.tables.commits import newest_commit
from examples.billing import campaign_bills, data
from examples.stage.checks import equal
from examples.stage.naive import Answer
from examples.stage.shown import Played, Shown
from examples.stage.stage import Stage

EVENTS = 4000


def play(stage: Stage) -> Played:
    stage.set(campaign_bills)
    stage.write("tables/campaigns.csv", data.table())
    in_time, late, again = data.ad_events(EVENTS, seed=1)
    stage.bring("events", in_time)
    before = _bills(stage.rows(campaign_bills))
    stage.bring("that are minutes late, or sent for the second time", [*late, *again])
    after = _bills(stage.rows(campaign_bills))
    truth = data.truth([*in_time, *late])
    written = newest_commit(Log(stage.views[campaign_bills.name].source, stage.settings).table)
    owed = sum((cost for _, cost in after.values()), Decimal(0))
    checks = [
        equal("all bills together", owed, sum((row["cost"] for row in truth.values()), Decimal(0))),
        equal(
            "events that were sent twice, and billed once",
            written.duplicates if written else None,
            len(again),
        ),
        *stage.three_ways({campaign_bills.name: truth}),
    ]
    rows = tuple(
        (campaign, views, before[campaign][1], cost - before[campaign][1], cost)
        for campaign, (views, cost) in sorted(after.items(), key=lambda one: -one[1][1])
    )
    columns = ("campaign", "views", "in time", "late", "owes")
    return Played((Shown("what each campaign owes", columns, rows, ("in time", "late")),), tuple(checks))


def _bills(rows: Answer) -> dict[str, tuple[int, Decimal]]:
    """Campaign -> views and cost, of all its windows."""
    found: dict[str, tuple[int, Decimal]] = {}
    for (campaign, _), numbers in rows.items():
        views, cost = found.get(campaign, (0, Decimal(0)))
        found[campaign] = views + numbers["views"], cost + numbers["cost"]
    return found
