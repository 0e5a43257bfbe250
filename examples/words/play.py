"""words: one sentence becomes several rows, and every word counts.

Sentences of proverbs, as a crowd would repeat them.
"""

import random
import re
from datetime import UTC, datetime, timedelta

from braid.examples.stage.checks import Played, Shown, equal
from braid.examples.stage.naive import Answer, Event, all_time, answer
from braid.examples.stage.stage import Stage
from braid.examples.words import word_counts

SENTENCES, MORE = 800, 400
PROVERBS = (
    "The early bird catches the worm.",
    "Many hands make light work!",
    "A watched pot never boils.",
    "The pen is mightier than the sword.",
    "When in Rome, do as the Romans do.",
    "Two wrongs don't make a right.",
    "Time and tide wait for no man.",
    "All that glitters is not gold.",
    "You can't judge a book by its cover.",
    "Where there is smoke, there is fire.",
    "...",
)
BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)


def sentences(number: int, seed: int) -> list[Event]:
    """Some proverbs are said more often than others, one in a hundred says nothing, and one of them is no words."""
    chance = random.Random(seed)
    weights = [1 / (rank + 4) for rank in range(len(PROVERBS))]
    said = chance.choices(PROVERBS, weights, k=number)
    return [
        {"time": BEGIN + timedelta(seconds=n), "text": None if chance.random() < 0.01 else text}
        for n, text in enumerate(said)
    ]


def true_rows(events: list[Event]) -> Answer:
    words = [
        event | {"word": word}
        for event in events
        for word in re.findall("[a-z]+", (event["text"] or "").lower())
    ]
    return answer(words, ["word"], all_time, {"times": len})


def play(stage: Stage) -> Played:
    stage.set(word_counts)
    first, more = sentences(SENTENCES, seed=1), sentences(MORE, seed=2)
    stage.bring("sentences", first)
    before = sum(row["times"] for row in stage.rows(word_counts).values())
    stage.bring("more", more)
    truth = true_rows([*first, *more])
    checks = [
        equal(
            "words said in the first sentences",
            before,
            sum(n["times"] for n in true_rows(first).values()),
        ),
        *stage.three_ways({word_counts.name: truth}),
    ]
    rows = stage.top(word_counts, by="times", n=10)
    shown = Shown("the ten words that are said most", ("word", "times"), rows, ("times",))
    return Played((shown,), tuple(checks))
