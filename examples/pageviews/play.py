"""pageviews: a user who moves changes what batch says of the past, and not what the stream has said.

A morning and an afternoon of page views; at noon some users move to another country.
"""

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from braid.examples.pageviews import views_by_country
from braid.examples.stage.checks import Played, Shown, against_truth, identical
from braid.examples.stage.naive import Answer, Event, answer, summed, tumbling
from braid.examples.stage.stage import Stage

VIEWS, MOVERS = 800, 8
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


def true_rows(events: list[Event]) -> Answer:
    return answer(events, ["country"], tumbling(timedelta(hours=1)), {"views": len})


def play(stage: Stage) -> Played:
    stage.set(views_by_country)
    before = users()
    after = moved(before, MOVERS)
    morning, afternoon = views(VIEWS, 0, seed=1), views(VIEWS, 4, seed=2)
    stage.write_table("tables/users", ("user_id", "country"), list(before.items()))
    stage.bring("views of the morning", morning)
    lived = stage.rows(views_by_country)
    with stage.say(f"{MOVERS} users move to {MOVED_TO}"):
        stage.write_table("tables/users", ("user_id", "country"), list(after.items()))
        stage.stream()
    unmoved = stage.rows(views_by_country)
    stage.bring("views of the afternoon", afternoon)
    streamed = stage.rows(views_by_country)
    as_read = true_rows(joined(morning, before) + joined(afternoon, after))
    restated = true_rows(joined(morning + afternoon, after))
    name = views_by_country.name
    checks = [
        against_truth("the morning", views_by_country, lived, true_rows(joined(morning, before))),
        identical("the morning, after they moved: the stream", views_by_country, unmoved, lived),
        *stage.three_ways({name: restated}, streamed={name: as_read}),
        against_truth(
            "served after the restatement", views_by_country, stage.rows(views_by_country), restated
        ),
    ]
    return Played((_countries(streamed, stage.rows(views_by_country)),), tuple(checks))


def _countries(streamed: Answer, restated: Answer) -> Shown:
    one, other = (summed(rows, 0, "views") for rows in (streamed, restated))
    rows = tuple(
        (country, one[country], other[country], other[country] - one[country]) for country in sorted(other)
    )
    columns = ("country", "as the stream read it", "restated by batch", "moved")
    return Shown("views by country", columns, rows, columns[1:3], stacked=False)
