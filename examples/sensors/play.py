"""sensors: the stream joins in what batch has learnt, and an alert tells the window and the cut of the model.

A quiet day to learn from, and a morning in which a device fails and another is new.
"""

import random
from datetime import UTC, datetime, timedelta

from braid.deploy import store as deployment
from braid.examples.sensors import alerts, climate, usual
from braid.examples.stage.checks import Played, Shown, TruthCheck, against_truth, equal, text
from braid.examples.stage.naive import (
    Answer,
    Event,
    all_time,
    answer,
    average,
    deviation,
    least,
    most,
    sliding,
)
from braid.examples.stage.stage import Stage
from braid.tables.commits import newest_tail_commit
from braid.tables.spark_tables import pinned, throughs
from braid.tables.view_tables import ViewTables
from serving_layer.answer.reader import read

SHOWN = 14
# Device -> (site, sensor, level, half of its range)
DEVICES = {
    "boiler-1": ("north", "temperature", 64.0, 2.0),
    "boiler-2": ("south", "temperature", 61.0, 1.5),
    "hall-1": ("north", "humidity", 44.0, 5.0),
    "hall-2": ("south", "humidity", 47.0, 4.0),
    "valve-1": ("south", "pressure", 5.2, 0.3),
}
NEW = "valve-2"
QUIET, BUSY = datetime(2026, 3, 9, 8, tzinfo=UTC), datetime(2026, 3, 10, 8, tzinfo=UTC)
FAILS, BACK = BUSY + timedelta(minutes=40), BUSY + timedelta(minutes=46)
EVERY = timedelta(seconds=30)
FIVE_MINUTES = sliding(timedelta(minutes=5), timedelta(minutes=1))


def registry() -> list[str]:
    return ["device,site", *(f"{device},{site}" for device, (site, *_) in DEVICES.items()), f"{NEW},south"]


def quiet_day(seed: int) -> list[Event]:
    """Readings within what is usual."""
    chance = random.Random(seed)
    return [event for n in range(360) for event in _all(QUIET + n * EVERY, chance)]


def busy_morning(seed: int) -> list[Event]:
    """One boiler overheats for some minutes; a new valve, of which nothing is known, swings as it likes."""
    chance = random.Random(seed)
    found = []
    for n in range(160):
        time = BUSY + n * EVERY
        found += _all(time, chance)
        found.append(
            {"device": NEW, "time": time, "sensor": "pressure", "value": round(chance.uniform(0, 9), 2)}
        )
    hot = [event for event in found if event["device"] == "boiler-1" and FAILS <= event["time"] < BACK]
    for n, event in enumerate(hot):
        event["value"] = round(event["value"] + 12 + n, 2)
    return found


def true_climate(events: list[Event]) -> Answer:
    measures = {
        "readings": len, "mean": average("value"), "least": least("value"), "most": most("value"),
        "spread": deviation("value"),
    }  # fmt: skip
    return answer(events, ["sensor"], FIVE_MINUTES, measures)


def true_usual(events: list[Event]) -> Answer:
    return answer(events, ["device"], all_time, {"level": average("value"), "deviation": deviation("value")})


def true_alerts(events: list[Event], model: Answer) -> Answer:
    raised = [
        event | {"site": DEVICES[event["device"]][0]}
        for event in events
        if (known := model.get((event["device"],)))
        and abs(event["value"] - known["level"]) > 5 * known["deviation"]
    ]
    return answer(
        raised, ["site", "device", "sensor"], FIVE_MINUTES, {"alerts": len, "highest": most("value")}
    )


def _all(time: datetime, chance: random.Random) -> list[Event]:
    return [
        {
            "device": device,
            "time": time,
            "sensor": sensor,
            "value": round(chance.uniform(level - room, level + room), 2),
        }
        for device, (_, sensor, level, room) in DEVICES.items()
    ]


def play(stage: Stage) -> Played:
    stage.set(usual, climate, alerts)
    stage.write("tables/devices.csv", registry())
    quiet, busy = quiet_day(seed=1), busy_morning(seed=2)
    stage.bring("readings of a quiet day", quiet)
    checks = [equal("alerts while nothing is known", len(stage.rows(alerts)), 0)]
    # At night, batch learns.
    checks += stage.batch(usual)
    model, learnt = true_usual(quiet), stage.rows(usual)
    checks.append(against_truth("the model that batch has learnt", usual, learnt, model))
    stage.bring("readings of a morning in which a boiler fails", busy)
    raised, cut = stage.rows(alerts), model_cut(stage)
    everything = [*quiet, *busy]
    truths = {
        usual.name: true_usual(everything),
        climate.name: true_climate(everything),
        alerts.name: true_alerts(busy, model),
    }
    checks += [_published(stage, cut), *stage.three_ways(truths)]
    return Played((_raised(raised, cut), _around(stage.rows(climate), raised)), tuple(checks))


def model_cut(stage: Stage) -> datetime:
    """Up to where the model had learnt that the newest batch of the stream of alerts was joined to.

    A commit of a tail names the version of the base that it read; that version's days say through which epoch.
    """
    commit = newest_tail_commit(ViewTables(stage.settings, alerts.name, 1).tail)
    assert commit is not None, "alerts were streamed"
    number, _, version = commit.lookups[usual.name].removeprefix("v").partition("@")
    base = ViewTables(stage.settings, usual.name, int(number)).base
    return max(throughs(pinned(stage.spark, base, int(version))).values())


def _published(stage: Stage, cut: datetime) -> TruthCheck:
    """The cut is the one with which batch published the quiet day, and nothing else is in that base yet."""
    active = deployment.load(stage.settings, usual.name).active
    assert active is not None, "the model was published"
    through = read(stage.settings, active).through
    found, true = (
        {day: text(moment) for day, moment in days.items()} for days in ({QUIET.date(): cut}, through)
    )
    return equal("the day and the cut of the model that raised them", found, true)


def _raised(rows: Answer, cut: datetime) -> Shown:
    found = sorted(rows.items(), key=lambda one: one[0][-1])
    return Shown(
        "alerts: readings beyond five standard deviations, in five minutes",
        ("from", "site", "device", "alerts", "highest", "the model's cut"),
        tuple(
            (start, site, device, row["alerts"], row["highest"], cut)
            for (site, device, _, start), row in found
        ),
    )


def _around(rows: Answer, raised: Answer) -> Shown:
    """The temperature in the windows around the failure."""
    counts = {start: row["alerts"] for (*_, start), row in raised.items()}
    found = sorted((start, row) for (sensor, start), row in rows.items() if sensor == "temperature")
    at = next(n for n, (start, _) in enumerate(found) if start in counts) - 2
    table = tuple(
        (
            f"{start:%H:%M}",
            *(round(row[name], 2) for name in ("mean", "least", "most", "spread")),
            counts.get(start, 0),
        )
        for start, row in found[at : at + SHOWN]
    )
    columns = ("five minutes from", "mean", "least", "most", "spread", "alerts")
    return Shown(
        "the temperature meanwhile", columns, table, ("mean", "least", "most"), lines=True, marked="alerts"
    )
