"""A recompute that is killed leaves the published version untouched or replaces it whole; the next run finishes it."""

import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from batch_layer.plan import plan
from batch_layer.run import run
from batch_layer.tasks import Asked
from braid.define.loading import load_definitions
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.spark_tables import pinned
from tests.faults.die_in_batch import POINTS
from tests.streams import Feed, served, tables_of

REPOSITORY = Path(__file__).resolve().parents[2]
DAY = date(2026, 2, 27)
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
    start = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC)
    return [{"id": str(n), "time": start + timedelta(minutes=n), "url": f"/{n % 5}"} for n in numbers]


def hits(states: Counter[Any]) -> int:
    return sum(row[-1] * times for row, times in states.items())


@pytest.mark.soak
@pytest.mark.parametrize("point", POINTS)
def test_a_recompute_that_is_killed_leaves_one_whole_version(
    spark: Any, home: Path, tmp_path: Path, point: str
) -> None:
    module = tmp_path / "definitions.py"
    module.write_text(DEFINITIONS)
    settings = Settings(home=str(home), spark_master="local[2]", definitions=str(module))
    (view,) = load_definitions(str(module)).views.values()
    feed = Feed(spark, Log(view.source, settings))
    feed.commit(events(*range(100)), 0)
    feed.beat(2)
    run(lambda: spark, settings, [view], Asked())
    tables = tables_of(settings, view)
    before = served(spark, view, tables)
    feed.commit(events(*range(100, 150)), 3)
    feed.beat(5)

    environment = os.environ | {"BRAID_HOME": str(home), "BRAID_SPARK_MASTER": "local[2]"}
    died = subprocess.run(
        [sys.executable, "-m", "tests.faults.die_in_batch", str(module), point],
        cwd=REPOSITORY, env=environment, check=False, timeout=240, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert died.returncode == -signal.SIGKILL, died.stdout.decode()

    (day,) = plan(settings, [view])[0].days
    if point == POINTS[0]:
        assert served(spark, view, tables) == before
        assert day.state == "stale"
    else:
        assert hits(served(spark, view, tables)) == 150
    run(lambda: spark, settings, [view], Asked(force=True))
    assert hits(served(spark, view, tables)) == 150
    assert pinned(spark, tables.base).select("through").distinct().count() == 1
    assert plan(settings, [view])[0].days[0].state == "up to date"
