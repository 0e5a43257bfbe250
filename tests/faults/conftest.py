"""Stages for the tests of faults."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.stage import Stage, make_stage


@pytest.fixture
def new_stage(spark: Any, tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Makes a stage with the settings that are given, and closes it."""
    with ExitStack() as made:

        def make(**given: str) -> Stage:
            stage = make_stage(spark, tmp_path, **given)
            made.callback(stage.close)
            return stage

        yield make
