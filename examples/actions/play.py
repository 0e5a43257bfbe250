"""actions: events that come hours late are counted in the hour in which they happened, and the number says so."""

from collections import Counter
from datetime import datetime

from examples.actions import actions_per_hour, data
from examples.stage.checks import against_truth, equal
from examples.stage.naive import Answer
from examples.stage.shown import Played, Shown
from examples.stage.stage import Stage

TAPS = 3000


def play(stage: Stage) -> Played:
    stage.set(actions_per_hour)
    online, late = data.taps(TAPS, seed=1)
    stage.bring("taps of phones that are online", online)
    before = stage.rows(actions_per_hour)
    stage.bring("taps of phones that were offline for hours", late)
    after, said = stage.rows(actions_per_hour), stage.provenance(actions_per_hour)
    seen = max(event["time"] for event in online)
    judged = data.are_late(late, seen, actions_per_hour.patience)
    revised = {(event["action"], data.hour(event["time"])) for event in judged}
    checks = [
        against_truth("before the phones were back", actions_per_hour, before, data.truth(online)),
        equal("taps that came after their hour was final", said["late_events"], len(judged)),
        equal(
            "hours of an action that were final, and were revised", said["windows"]["revised"], len(revised)
        ),
        *stage.three_ways({actions_per_hour.name: data.truth([*online, *late])}),
    ]
    return Played((_hours(before, after),), tuple(checks))


def _hours(before: Answer, after: Answer) -> Shown:
    on_time, in_all, zone = _by_hour(before), _by_hour(after), actions_per_hour.source.zone
    rows = tuple(
        (f"{start.astimezone(zone):%H:%M}", on_time[start], in_all[start] - on_time[start], in_all[start])
        for start in sorted(in_all)
    )
    columns = ("hour in Paris", "on time", "hours late", "times")
    return Shown(
        "what people did, by the hour in which they did it", columns, rows, ("on time", "hours late")
    )


def _by_hour(rows: Answer) -> "Counter[datetime]":
    found: Counter[datetime] = Counter()
    for (_, start), numbers in rows.items():
        found[start] += numbers["times"]
    return found
