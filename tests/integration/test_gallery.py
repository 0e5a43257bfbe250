"""Every example gives the same numbers by batch, stream and Kappa, and they are the naive truth."""

import uuid
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from braid.cli.gallery import NAMES, play_of
from braid.cli.gallery.stage import Stage
from braid.settings import Settings
from infra.broker import Broker


@pytest.mark.parametrize("name", NAMES)
def test_batch_stream_and_kappa_give_the_same_true_numbers(
    name: str, spark: Any, broker: Broker, home: Path
) -> None:
    settings = Settings(
        home=str(home), spark_master="local[2]", kafka_bootstrap=broker.bootstrap, epoch=timedelta(seconds=1)
    )
    stage = Stage(spark, settings, lambda what: nullcontext(), apart=f"-{uuid.uuid4().hex}")
    played = play_of(name)(stage)
    assert [check for check in played.checks if not check.ok] == []
    assert len(played.checks) >= 5
    assert all(shown.rows for shown in played.results)
