"""A deriver or a correction that dies at its worst points: the next start gives every pair once, and none is lost."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from batch_layer.derived import correct
from braid.log.database import made_by_batch
from braid.log.derived import DerivedPlaces
from speed_layer.ledger.balance import take_stock
from tests.clicks import Clicks, parts
from tests.faults.die_deriving import POINTS
from tests.streams import recomputed, served, tables_of

pytestmark = pytest.mark.soak

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def prepared(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Clicks:
    """A home that has streamed what came in time; the second half of it, and what is late, wait in the folders."""
    folder, made = tmp_path_factory.mktemp("clicks"), parts()
    clicks = Clicks(spark, folder, folder / "home")
    clicks.make()
    half = len(made.shown) // 2
    clicks.put("first", made.shown[:half], made.clicks)
    clicks.stream()
    clicks.put("second", made.shown[half:] + made.late_shown, made.late_clicks)
    # The test's JVM, which wrote so far, lives on: whoever comes next would wait for its end.
    shutil.rmtree(clicks.home / "drivers", ignore_errors=True)
    return clicks


@pytest.mark.parametrize("point", POINTS)
def test_a_deriver_that_is_killed_draws_every_pair_once(prepared: Clicks, tmp_path: Path, point: str) -> None:
    clicks = Clicks(prepared.spark, prepared.folder, tmp_path / "home")
    shutil.copytree(prepared.home, clicks.home)
    before = DerivedPlaces(clicks.log).derivation()
    assert before is not None
    names = {
        "HOME": str(clicks.home), "DEFINITIONS": clicks.settings.definitions, "SPARK_MASTER": "local[2]",
        "SPARK_MEMORY": "1g", "EPOCH": "1 second", "KAFKA_BOOTSTRAP": "127.0.0.1:1",
    }  # fmt: skip
    environment = os.environ | {f"BRAID_{name}": value for name, value in names.items()}
    command = [sys.executable, "-m", "tests.faults.die_deriving", point]
    done = subprocess.run(
        command, env=environment, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    said = DerivedPlaces(clicks.log).derivation()
    assert said is not None
    assert (said.batch > before.batch) == (point not in ("before_the_file", "after_the_file"))
    handed_in = made_by_batch(clicks.log)
    assert (handed_in > 0) == (point in ("after_the_inbox", "after_the_correction"))
    clicks.stream()
    added = correct(lambda: clicks.spark, clicks.settings, [clicks.join])
    # What was handed in once is not handed in again.
    assert (added > 0) == (handed_in == 0)
    clicks.stream()
    assert clicks.pairs() == parts().pairs(late=True)
    assert take_stock(clicks.log).balanced
    tables = tables_of(clicks.settings, clicks.view)
    assert served(clicks.spark, clicks.view, tables) == recomputed(clicks.spark, clicks.view, clicks.settings)
