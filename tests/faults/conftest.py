"""Stages for the tests of faults."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from braid.settings import Settings
from tests.faults.stage import DEFINITIONS, Stage


@pytest.fixture
def make_stage(spark: Any, tmp_path: Path) -> Iterator[Any]:
    """Makes the stage with the settings that are given; what was started on it does not outlive the test."""
    made: list[Stage] = []

    def make(**given: str) -> Stage:
        definitions = tmp_path / "definitions.py"
        definitions.write_text(DEFINITIONS.format(topic=f"t-{uuid.uuid4().hex}"))
        chosen = {
            "home": str(tmp_path / "home"),
            "definitions": str(definitions),
            "kafka_bootstrap": "127.0.0.1:1",
            "spark_master": "local[2]",
            "spark_memory": "1g",
        } | given
        environment = {f"BRAID_{name.upper()}": value for name, value in chosen.items()}
        made.append(Stage(spark, Settings.model_validate(chosen), environment))
        return made[-1]

    yield make
    for stage in made:
        for command in stage.commands:
            command.process.kill()
            command.ended()
