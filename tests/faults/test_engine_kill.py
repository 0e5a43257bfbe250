"""The engine, ingest and streams in one, is killed at any moment or told to stop: nothing is lost or counted twice."""

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from braid.infra import broker as embedded
from braid.tables.commits import BaseCommit, described, newest_commit
from speed_layer.ledger.balance import take_stock
from tests.faults.stage import (
    ENDLESS,
    INTERRUPTED,
    Stage,
    assert_exact,
    batches_of,
    has_batches,
    send,
    true_ids,
)
from tests.streams import tables_of
from tests.waiting import until

pytestmark = pytest.mark.soak

# What an engine says last before it is killed at a random moment. Each as often as the others: on a slow machine, an
# engine that only just started would never have done anything.
SAID = ("ingest started", "stream started", "batch committed", "folded into the base  view=visits")
KILLS = 20


@pytest.fixture
def stage(new_stage: Callable[..., Stage], broker: embedded.Broker) -> Stage:
    return new_stage(
        kafka_bootstrap=broker.bootstrap, epoch="5 seconds", fold_every="10 seconds", trigger="0 seconds"
    )


def test_twenty_kills_at_random_moments_lose_nothing_and_count_nothing_twice(
    stage: Stage, tmp_path: Path
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    moments = random.Random(seed)
    sending = send(stage, tmp_path / "truth", ENDLESS, rate=200)
    for said in moments.sample(SAID * (KILLS // len(SAID)), KILLS):
        engine = stage.run("stream", "--ingest", BRAID_LOG_LEVEL="debug")
        engine.wait_for(said)
        # Not a wait for something to be ready: the moment itself is what is tried.
        threading.Event().wait(moments.uniform(0, 5))
        engine.kill(moments.choice(["python", "jvm", "both"]))
    assert sending.stop() == INTERRUPTED
    assert_was_at_work(stage)
    stage.finish()
    books = take_stock(stage.log)
    assert books.balanced, books
    assert books.waiting == 0
    assert stage.accepted_ids() == true_ids(tmp_path / "truth")
    assert_exact(stage)


def assert_was_at_work(stage: Stage) -> None:
    """Engines that were killed before they did anything would prove nothing."""
    for view in stage.views:
        assert len(batches_of(stage, view)) > 1, view.name
        if view.mode == "kappa":
            base = tables_of(stage.settings, view).base
            assert list(described(base, BaseCommit.from_json)), view.name


def test_sigterm_stops_it_cleanly_and_closes_its_epoch(stage: Stage, tmp_path: Path) -> None:
    sending = send(stage, tmp_path / "truth", 2000, rate=0)
    assert sending.ended() == 0
    engine = stage.run("stream", "--ingest")
    until(lambda: all(has_batches(stage, view) for view in stage.views))
    assert engine.stop() == 0, engine.said
    assert "Traceback" not in engine.said
    newest = newest_commit(stage.log.table)
    assert newest is not None
    assert newest.beat
    assert stage.accepted_ids() == true_ids(tmp_path / "truth")
    stage.finish()
    assert_exact(stage)
