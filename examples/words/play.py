"""words: one sentence becomes several rows, and every word counts."""

from examples.stage.checks import equal
from examples.stage.shown import Played, Shown
from examples.stage.stage import Stage
from examples.words import data, word_counts

SENTENCES, MORE = 800, 400


def play(stage: Stage) -> Played:
    stage.set(word_counts)
    first, more = data.sentences(SENTENCES, seed=1), data.sentences(MORE, seed=2)
    stage.bring("sentences", first)
    before = sum(row["times"] for row in stage.rows(word_counts).values())
    stage.bring("more", more)
    truth = data.truth([*first, *more])
    checks = [
        equal(
            "words said in the first sentences", before, sum(n["times"] for n in data.truth(first).values())
        ),
        *stage.three_ways({word_counts.name: truth}),
    ]
    rows = stage.top(word_counts, by="times", n=10)
    shown = Shown("the ten words that are said most", ("word", "times"), rows, ("times",))
    return Played((shown,), tuple(checks))
