"""pageviews: a user who moves changes what batch says of the past, and not what the stream has said."""

from collections import Counter

from examples.pageviews import data, views_by_country
from examples.stage.checks import against_truth, identical
from examples.stage.naive import Answer
from examples.stage.shown import Played, Shown
from examples.stage.stage import Stage

VIEWS, MOVERS = 800, 8


def play(stage: Stage) -> Played:
    stage.set(views_by_country)
    before = data.users()
    after = data.moved(before, MOVERS)
    morning, afternoon = data.views(VIEWS, 0, seed=1), data.views(VIEWS, 4, seed=2)
    stage.write_table("tables/users", ("user_id", "country"), list(before.items()))
    stage.bring("views of the morning", morning)
    lived = stage.rows(views_by_country)
    with stage.say(f"{MOVERS} users move to {data.MOVED_TO}"):
        stage.write_table("tables/users", ("user_id", "country"), list(after.items()))
        stage.stream()
    unmoved = stage.rows(views_by_country)
    stage.bring("views of the afternoon", afternoon)
    streamed = stage.rows(views_by_country)
    as_read = data.truth(data.joined(morning, before) + data.joined(afternoon, after))
    restated = data.truth(data.joined(morning + afternoon, after))
    name = views_by_country.name
    checks = [
        against_truth("the morning", views_by_country, lived, data.truth(data.joined(morning, before))),
        identical("the morning, after they moved: the stream", views_by_country, unmoved, lived),
        *stage.three_ways({name: restated}, streamed={name: as_read}),
        against_truth(
            "served after the restatement", views_by_country, stage.rows(views_by_country), restated
        ),
    ]
    return Played((_countries(streamed, stage.rows(views_by_country)),), tuple(checks))


def _countries(streamed: Answer, restated: Answer) -> Shown:
    one, other = _by_country(streamed), _by_country(restated)
    rows = tuple(
        (country, one[country], other[country], other[country] - one[country]) for country in sorted(other)
    )
    columns = ("country", "as the stream read it", "restated by batch", "moved")
    return Shown("views by country", columns, rows, columns[1:3], stacked=False)


def _by_country(rows: Answer) -> "Counter[str]":
    found: Counter[str] = Counter()
    for (country, _), numbers in rows.items():
        found[country] += numbers["views"]
    return found
