"""hashtags: one message is counted for each of its tags, in windows that slide by five seconds."""

from datetime import timedelta

from examples.hashtags import data, hashtag_trends
from examples.stage.checks import equal
from examples.stage.naive import Answer
from examples.stage.shown import Played, Shown
from examples.stage.stage import Stage

MESSAGES, TEN = 2400, 10


def play(stage: Stage) -> Played:
    stage.set(hashtag_trends)
    events = data.messages(MESSAGES, seed=1)
    half = MESSAGES // 2
    stage.bring("messages of the first half", events[:half])
    stage.bring("messages of the second", events[half:])
    truth = data.truth(events)
    rows = stage.top(
        hashtag_trends, "messages", TEN, per="window",
        start=data.GOAL.isoformat(), end=(data.GOAL + timedelta(seconds=5)).isoformat(),
    )  # fmt: skip
    checks = [
        *stage.three_ways({hashtag_trends.name: truth}),
        equal("the tag of the minute in which a goal was scored", rows[0][0], "goal"),
        equal("the ten largest numbers of that minute", [row[1] for row in rows], _largest(truth)),
    ]
    shown = Shown(f"the minute from {data.GOAL:%H:%M}: ten tags", ("tag", "messages"), rows, ("messages",))
    return Played((shown,), tuple(checks))


def _largest(truth: Answer) -> list[int]:
    found = [numbers["messages"] for (_, start), numbers in truth.items() if start == data.GOAL]
    return sorted(found, reverse=True)[:TEN]
