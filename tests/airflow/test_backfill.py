"""Airflow's own backfills compute days exactly: forwards, backwards, and again."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from braid.examples import weblog
from braid.infra.airflow import service as local
from braid.runtime.settings import Settings
from tests.airflow.conftest import DAILY, Running
from tests.streams import rows_of, tables_of
from tests.waiting import until

BRAID = str(Path(sys.executable).with_name("braid"))
VIEW = replace(weblog.page_traffic, mode="lambda")
FIRST = 1


@dataclass(frozen=True)
class Shop:
    """A folder with definitions, a log with five days of March 2026 in it, and the exact expected answer."""

    running: Running
    settings: Settings
    truth: Counter[tuple[str, str, int, int]]

    def backfill(self, last: int, *options: str) -> None:
        """Creates a backfill from the first of March on, and waits for its end."""
        days = ("--from-date", f"2026-03-{FIRST:02}", "--to-date", f"2026-03-{last:02}")
        self.running.command(
            "backfill", "create", "--dag-id", DAILY, *days, "--max-active-runs", "2", *options
        )
        runs = {f"backfill__2026-03-{day + 1:02}T00:00:00+00:00" for day in range(FIRST, last + 1)}
        until(self._are_over, timeout=1800)
        assert {run: self.running.runs(DAILY)[run] for run in runs} == dict.fromkeys(runs, "success")

    def _are_over(self) -> bool:
        """Airflow notices the end of a backfill a little after that of its runs, and refuses another one until then."""
        backfills = self.running.api.ask("GET", f"/backfills?dag_id={DAILY}")["backfills"]
        return all(backfill["completed_at"] for backfill in backfills)

    def attempts(self, day: int) -> int:
        """How often the day has been computed."""
        run = f"backfill__2026-03-{day + 1:02}T00:00:00+00:00"
        return int(self.running.task(DAILY, run, "compute")["try_number"])

    def expected(self, last: int) -> Counter[tuple[str, str, int, int]]:
        return Counter({row: n for row, n in self.truth.items() if int(row[0][-2:]) <= last})


@pytest.fixture(scope="module")
def shop(
    tmp_path_factory: pytest.TempPathFactory, start_airflow: Callable[[dict[str, str]], Running]
) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "drop").mkdir()
    (folder / "shop.py").write_text(
        "from dataclasses import replace\n"
        "from braid.examples import weblog\n"
        f'requests = replace(weblog.requests, kafka_topic=None, files="{folder}/drop/*.jsonl")\n'
        'page_traffic = replace(weblog.page_traffic, source=requests, mode="lambda")\n'
    )
    variables = {
        "BRAID_HOME": str(folder / "home"),
        # Relative: tasks must find it from where Airflow was started.
        "BRAID_DEFINITIONS": "shop.py",
        "BRAID_SPARK_MASTER": "local[2]",
        "BRAID_SPARK_MEMORY": "1g",
        "BRAID_EPOCH": "2 seconds",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        running = start_airflow(variables)
    mixed = ("--late", "0.1", "--duplicates", "0.05", "--malformed", "0.03")
    made = ("produce", "--events", "500", "--days", "5", "--start", "2026-03-01", *mixed)
    for command in ((*made, "--to", "drop/a.jsonl", "--truth", "truth.json"), ("ingest", "--once")):
        subprocess.run(
            [BRAID, *command], env=running.environment, cwd=folder, check=True, capture_output=True
        )
    running.command("dags", "unpause", "-y", DAILY)
    stop_the_scheduled_run(running)
    truth = json.loads((folder / "truth.json").read_text())["page_traffic"]
    yield Shop(
        running,
        Settings(home=str(folder / "home")),
        Counter((row["day"], row["url"], row["hits"], row["bytes"]) for row in truth),
    )
    local.stop(running.airflow)


def stop_the_scheduled_run(running: Running) -> None:
    """A DAG that may run begins with yesterday, of which these tests know nothing."""
    until(lambda: bool(running.runs(DAILY)))
    for run in running.runs(DAILY):
        running.api.ask("PATCH", f"/dags/{DAILY}/dagRuns/{run.replace('+', '%2B')}", {"state": "failed"})


def base(spark: Any, shop: Shop) -> Any:
    return spark.read.format("delta").load(tables_of(shop.settings, VIEW).base).where("pane is not null")


def published(spark: Any, shop: Shop) -> Counter[tuple[str, str, int, int]]:
    """Hits and bytes of each page and day in the base, whatever the tail holds."""
    from pyspark.sql import functions as F

    measures = {name: VIEW.measures[name] for name in ("hits", "bytes")}
    numbers = [m.present(m.merge(F.col(m.state_name))).alias(name) for name, m in measures.items()]
    rows = base(spark, shop).groupBy("day", "url").agg(*numbers).collect()
    return Counter((str(row.day), row.url, row.hits, row.bytes) for row in rows)


def whole(spark: Any, shop: Shop) -> tuple[Counter[Any], set[Any]]:
    """Everything that is in the base, and the cut of each day."""
    rows = base(spark, shop)
    return rows_of(VIEW, rows), {(row.day, row.through) for row in rows.select("day", "through").collect()}


@pytest.mark.soak
def test_a_backfill_publishes_the_truth(spark: Any, shop: Shop) -> None:
    shop.backfill(1)
    assert published(spark, shop) == shop.expected(1)


@pytest.mark.soak
def test_five_days_equal_the_truth_and_again_backwards_nothing_changes(spark: Any, shop: Shop) -> None:
    shop.backfill(5, "--reprocess-behavior", "completed")
    assert published(spark, shop) == shop.expected(5)
    tables, attempts = whole(spark, shop), shop.attempts(5)
    shop.backfill(5, "--reprocess-behavior", "completed", "--run-backwards")
    assert shop.attempts(5) > attempts
    assert whole(spark, shop) == tables
