"""sensors: the stream joins in what batch has learnt, and an alert tells the window and the cut of the model."""

from datetime import datetime

from braid.deploy import store as deployment
from braid.tables.commits import newest_tail_commit
from braid.tables.spark_tables import pinned, throughs
from braid.tables.view_tables import ViewTables
from examples.sensors import alerts, climate, data, usual
from examples.stage.checks import TruthCheck, against_truth, equal, text
from examples.stage.naive import Answer
from examples.stage.shown import Played, Shown
from examples.stage.stage import Stage
from serving_layer.answer.reader import read

SHOWN = 14


def play(stage: Stage) -> Played:
    stage.set(usual, climate, alerts)
    stage.write("tables/devices.csv", data.registry())
    quiet, busy = data.quiet_day(seed=1), data.busy_morning(seed=2)
    stage.bring("readings of a quiet day", quiet)
    checks = [equal("alerts while nothing is known", len(stage.rows(alerts)), 0)]
    # At night, batch learns.
    checks += stage.batch(usual)
    model, learnt = data.usual(quiet), stage.rows(usual)
    checks.append(against_truth("the model that batch has learnt", usual, learnt, model))
    stage.bring("readings of a morning in which a boiler fails", busy)
    raised, cut = stage.rows(alerts), model_cut(stage)
    everything = [*quiet, *busy]
    truths = {
        usual.name: data.usual(everything),
        climate.name: data.climate(everything),
        alerts.name: data.alerts(busy, model),
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
        {day: text(moment) for day, moment in days.items()} for days in ({data.QUIET.date(): cut}, through)
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
