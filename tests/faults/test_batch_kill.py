"""A recompute of days that is killed leaves each of them as it was or new; the next run finishes it."""

import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from batch_layer.days import read_days
from batch_layer.plan import plan
from batch_layer.run import run
from batch_layer.tasks import Asked
from braid.define.loading import load_definitions
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.spark_tables import pinned
from tests.faults.die_in_batch import POINTS
from tests.streams import MINUTE, NOON, Feed, served, tables_of

REPOSITORY = Path(__file__).resolve().parents[2]
DAYS = [date(2026, 2, 25), date(2026, 2, 26), date(2026, 2, 27)]
DEFINITIONS = """
from braid import Source, View, count, tumbling
requests = Source(
    name="requests", kafka_topic="requests", schema="id string, time timestamp, url string", event_time="time",
    event_id="id",
)
traffic = View(
    name="traffic", source=requests, keys=("url",), window=tumbling("1 hour"), measures={"hits": count()},
)
"""


def events(*numbers: int) -> list[dict[str, Any]]:
    """An event of each number on each day."""
    return [
        {
            "id": f"{day}-{n}", "url": f"/{n % 5}",
            "time": datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(minutes=n),
        }
        for day in DAYS
        for n in numbers
    ]  # fmt: skip


def hits(states: Counter[Any]) -> dict[date, int]:
    found: Counter[date] = Counter()
    for row, times in states.items():
        found[row[0]] += row[-1] * times
    return dict(found)


@pytest.mark.soak
@pytest.mark.parametrize("point", POINTS)
def test_a_recompute_that_is_killed_leaves_each_day_old_or_new(
    spark: Any, home: Path, tmp_path: Path, point: str
) -> None:
    module = tmp_path / "definitions.py"
    module.write_text(DEFINITIONS)
    settings = Settings(home=str(home), spark_master="local[2]", definitions=str(module))
    (view,) = load_definitions(str(module)).views.values()
    feed = Feed(spark, Log(view.source, settings))
    feed.commit(events(*range(40)), 0)
    feed.beat(2)
    run(lambda: spark, settings, [view], Asked())
    tables = tables_of(settings, view)
    assert hits(served(spark, view, tables)) == dict.fromkeys(DAYS, 40)
    feed.commit(events(*range(40, 60)), 3)
    feed.beat(5)

    environment = os.environ | {"BRAID_HOME": str(home), "BRAID_SPARK_MASTER": "local[2]"}
    died = subprocess.run(
        [sys.executable, "-m", "tests.faults.die_in_batch", str(module), point],
        cwd=REPOSITORY, env=environment, check=False, timeout=240, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert died.returncode == -signal.SIGKILL, died.stdout.decode()

    # How many days are new, and how many of these are on record.
    new, recorded = dict(zip(POINTS, ((0, 0), (3, 0), (2, 2), (3, 3), (0, 0)), strict=True))[point]
    expected = {day: 60 if number < new else 40 for number, day in enumerate(DAYS)}
    assert hits(served(spark, view, tables)) == expected
    states = [day.state for day in plan(settings, [view])[0].days]
    assert states == ["up to date"] * new + ["stale"] * (3 - new)
    cuts = {day: record.publish.cut for day, record in read_days(tables).items() if record.publish}
    assert list(cuts.values()) == [NOON + 4 * MINUTE] * recorded + [NOON + MINUTE] * (3 - recorded)
    run(lambda: spark, settings, [view], Asked())
    assert hits(served(spark, view, tables)) == dict.fromkeys(DAYS, 60)
    assert pinned(spark, tables.base).select("through").distinct().count() == 1
    assert {day.state for day in plan(settings, [view])[0].days} == {"up to date"}
