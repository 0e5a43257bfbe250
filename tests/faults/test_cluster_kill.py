"""On a cluster: the tables that one machine gives, also when executors and a worker are killed on the way."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from braid.define.view import View
from braid.deploy import store as deployment
from braid.infra import broker as embedded
from braid.infra import cluster as local
from braid.infra.cluster_files import LocalCluster
from braid.runtime.settings import Settings
from braid.states import state_columns
from braid.tables.spark_tables import pinned
from braid.tables.view_tables import bounds
from speed_layer.jobs.engine import stream
from speed_layer.ledger.balance import take_stock
from tests.cluster import environment, executors, running_cluster, worker
from tests.conftest import Answer
from tests.faults.stage import Stage, assert_exact, batches_of, has_batches, states_of
from tests.streams import recomputed, served, tables_of
from tests.waiting import until

pytestmark = pytest.mark.soak

# One of those that the generator makes up events for.
DAY = "2024-03-09"
DISORDER = "--late 0.2 --duplicates 0.05 --malformed 0.03 --out-of-order 0.1"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with running_cluster(
        tmp_path / "cluster", "a secret of this test", workers=2, cores=2, memory="2g"
    ) as made:
        yield made


@pytest.fixture
def stage(new_stage: Callable[..., Stage], broker: embedded.Broker) -> Stage:
    return new_stage(
        kafka_bootstrap=broker.bootstrap, epoch="5 seconds", fold_every="10 seconds", trigger="0 seconds"
    )


def on_the_cluster(stage: Stage, cluster: LocalCluster) -> Stage:
    return replace(stage, environment=stage.environment | environment(cluster))


def elsewhere(stage: Stage, home: Path) -> Stage:
    """The same definitions and the same topic, with tables of its own."""
    settings = Settings.model_validate(stage.settings.model_dump() | {"home": str(home)})
    changed = stage.environment | {"BRAID_HOME": str(home)}
    return replace(stage, settings=settings, environment=changed)


def send(stage: Stage, events: int, rate: int, truth: Path) -> Any:
    options = f"--topic {stage.source.kafka_topic} --events {events} --rate {rate} --truth {truth} {DISORDER}"
    return stage.run("produce", *options.split())


def do(stage: Stage, *arguments: str) -> None:
    command = stage.run(*arguments)
    assert command.ended(300) == 0, command.said
    assert "Traceback" not in command.said


FLOW = (
    "stream --ingest --once",
    "batch run",
    "kappa replay visits",
    "kappa promote visits",
    "compare page_traffic",
)


def all_tables(stage: Stage) -> dict[str, Counter[Any]]:
    """Everything that a flow leaves behind, but for when it did so: the log, the states that are served, the bases."""
    # Of two copies of an event that came in one batch, either is kept: they differ in where they came from.
    columns = [*stage.source.columns, "day", "_error"]
    found = {"log": rows(stage.spark.read.format("delta").load(stage.log.table), columns)}
    for view in stage.views:
        served_version = deployment.load(stage.settings, view.name).active
        assert served_version is not None
        tables = tables_of(stage.settings, view, served_version.number)
        wanted = ["day", *bounds(view), *view.keys, *exact_states(view)]
        found[f"base of {view.name}"] = rows(pinned(stage.spark, tables.base), wanted)
        found[f"served of {view.name}"] = served(stage.spark, view, tables)
    return found


def exact_states(view: View) -> list[str]:
    """The columns of states that are the same however events were split: a sketch's bytes need not be."""
    return [name for name in state_columns(view) if name.startswith(("count", "sum"))]


def rows(table: Any, columns: list[str]) -> Counter[Any]:
    return Counter(tuple(row) for row in table.select(*columns).collect())


def kill(process: psutil.Process) -> None:
    process.kill()
    process.wait(30)


def true_ids(truth: Path) -> list[str]:
    return sorted(json.loads(truth.read_text())["ids"])


def test_the_whole_flow_gives_the_tables_that_one_machine_gives(
    stage: Stage,
    cluster: LocalCluster,
    tmp_path: Path,
    braid: Callable[..., Answer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert send(stage, 3000, 0, tmp_path / "truth").ended() == 0
    there = on_the_cluster(elsewhere(stage, tmp_path / "there"), cluster)
    for name, value in stage.environment.items():
        monkeypatch.setenv(name, value)
    for command in FLOW:
        assert braid(*command.split()).code == 0, command
        do(there, *command.split())
    here_tables, there_tables = all_tables(stage), all_tables(there)
    assert here_tables.keys() == there_tables.keys()
    for name, expected in here_tables.items():
        assert sum(expected.values()) > 0, name
        assert there_tables[name] == expected, name
    assert take_stock(there.log).balanced
    assert there.accepted_ids() == true_ids(tmp_path / "truth")


def test_executors_and_a_worker_that_are_killed_under_a_stream_change_no_number(
    stage: Stage, cluster: LocalCluster, tmp_path: Path
) -> None:
    there = on_the_cluster(stage, cluster)
    sending = send(there, 200_000, 300, tmp_path / "truth")
    engine = there.run("stream", "--ingest", BRAID_LOG_LEVEL="debug")
    until(lambda: is_at_work(there))
    for _ in range(3):
        kill(executors(cluster)[0])
        assert_goes_on(there, engine)
    kill(worker(cluster))
    assert_goes_on(there, engine)
    assert not local.status(cluster).healthy
    local.start(cluster)
    assert local.status(cluster).healthy
    sending.stop()
    assert engine.stop() == 0, engine.said
    do(there, "stream", "--ingest", "--once")
    books = take_stock(stage.log)
    assert books.balanced, books
    assert books.waiting == 0
    assert stage.accepted_ids() == true_ids(tmp_path / "truth")
    assert_exact(stage)


def is_at_work(stage: Stage) -> bool:
    return all(has_batches(stage, view, 2) for view in stage.views)


def assert_goes_on(stage: Stage, engine: Any) -> None:
    """Every stream commits batches that it had not even begun when something was killed."""
    before = {view.name: len(batches_of(stage, view)) for view in stage.views}
    until(
        lambda: (
            engine.process.poll() is not None
            or all(len(batches_of(stage, view)) > before[view.name] + 2 for view in stage.views)
        )
    )
    assert engine.process.poll() is None, engine.said


def test_an_executor_that_is_killed_in_a_recompute_changes_no_number(
    stage: Stage, cluster: LocalCluster, tmp_path: Path
) -> None:
    there = on_the_cluster(stage, cluster)
    assert send(there, 10_000, 0, tmp_path / "truth").ended() == 0
    # What is to be recomputed may come from anywhere, and this session is warm.
    stream(stage.spark, stage.views, stage.settings, sources=[stage.source], only=True, once=True)
    base = Path(tables_of(stage.settings, stage.views[0]).base)
    for victim in (lambda: executors(cluster)[0], lambda: worker(cluster)):
        recompute_and_kill(there, base, victim)
        local.start(cluster)
    do(there, "batch", "compare", "--day", DAY)
    for view in stage.views:
        assert states_of(stage, view) == recomputed(stage.spark, view, stage.settings), view.name
    assert take_stock(stage.log).balanced


def recompute_and_kill(stage: Stage, base: Path, victim: Callable[[], psutil.Process]) -> None:
    before, commits = files(base), len(list((base / "_delta_log").glob("*.json")))
    running = stage.run("batch", "run", "--day", DAY, "--force")
    # What executors have begun to write and no commit names yet: the middle of a recompute.
    until(lambda: bool(files(base) - before) or running.process.poll() is not None)
    kill(victim())
    assert running.process.poll() is None, running.said
    assert running.ended(300) == 0, running.said
    assert len(list((base / "_delta_log").glob("*.json"))) > commits


def files(table: Path) -> set[Path]:
    return set(table.glob("*/*.parquet"))
