"""hashtags: one message is counted for each of its tags, in windows that slide by five seconds.

Ten minutes of messages about a match, in which a goal is scored after six; some phones are slow.
"""

import random
import re
from datetime import UTC, datetime, timedelta

from braid.examples.hashtags import hashtag_trends
from braid.examples.stage.checks import Played, Shown, equal
from braid.examples.stage.naive import Answer, Event, answer, sliding
from braid.examples.stage.stage import Stage

MESSAGES, TEN = 2400, 10
BEGIN = datetime(2026, 3, 7, 18, tzinfo=UTC)
GOAL = BEGIN + timedelta(minutes=6)
TAGS = (
    "final", "football", "live", "stadium", "referee", "home", "away", "var", "coffee", "weekend", "corner", "Penalty",
)  # fmt: skip


def messages(number: int, seed: int) -> list[Event]:
    """In the order in which they come: one in ten is up to half a minute late."""
    chance = random.Random(seed)
    made = [_message(n, BEGIN + timedelta(minutes=10) * n / number, chance) for n in range(number)]
    slow = [timedelta(seconds=chance.randrange(30)) * (chance.random() < 0.1) for _ in made]
    return [
        event for event, _ in sorted(zip(made, slow, strict=True), key=lambda one: one[0]["time"] + one[1])
    ]


def true_rows(events: list[Event]) -> Answer:
    tagged = [
        event | {"tag": tag}
        for event in events
        for tag in set(re.findall("#([a-z0-9_]+)", event["text"].lower()))
    ]
    every = sliding(timedelta(minutes=1), timedelta(seconds=5))
    return answer(tagged, ["tag"], every, {"messages": len})


def _message(number: int, time: datetime, chance: random.Random) -> Event:
    weights = [1 / (rank + 1) for rank in range(len(TAGS))]
    tags = chance.choices(TAGS, weights, k=chance.randrange(4))
    excited = GOAL <= time < GOAL + timedelta(minutes=1)
    text = " ".join(f"#{tag}" for tag in (*tags, *(("GOAL", "goal") if excited else ())))
    return {"id": f"m{number}", "time": time, "text": f"what a match {text}".strip()}


def play(stage: Stage) -> Played:
    stage.set(hashtag_trends)
    events = messages(MESSAGES, seed=1)
    half = MESSAGES // 2
    stage.bring("messages of the first half", events[:half])
    stage.bring("messages of the second", events[half:])
    truth = true_rows(events)
    rows = stage.top(
        hashtag_trends, "messages", TEN, per="window",
        start=GOAL.isoformat(), end=(GOAL + timedelta(seconds=5)).isoformat(),
    )  # fmt: skip
    checks = [
        *stage.three_ways({hashtag_trends.name: truth}),
        equal("the tag of the minute in which a goal was scored", rows[0][0], "goal"),
        equal("the ten largest numbers of that minute", [row[1] for row in rows], _largest(truth)),
    ]
    shown = Shown(f"the minute from {GOAL:%H:%M}: ten tags", ("tag", "messages"), rows, ("messages",))
    return Played((shown,), tuple(checks))


def _largest(truth: Answer) -> list[int]:
    found = [numbers["messages"] for (_, start), numbers in truth.items() if start == GOAL]
    return sorted(found, reverse=True)[:TEN]
