"""Spark's checkpoint is read as it is written, and a damaged one is named before Spark meets it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from braid.errors import BraidError
from speed_layer.jobs.checkpoint import Checkpoint

OFFSETS = (
    'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}\n'
    '{"requests":{"0":12,"1":7}}\n{"logOffset":3}'
)


Make = Callable[[dict[str, str]], Checkpoint]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Make:
    """Makes a checkpoint of such files."""

    def made(files: dict[str, str]) -> Checkpoint:
        for name, text in files.items():
            file = tmp_path / "c" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return Checkpoint(f"{tmp_path}/c", "Mend it.")

    return made


def test_a_batchs_plan_has_its_clock_and_where_each_source_ends(checkpoint: Make) -> None:
    plan = checkpoint({"offsets/4": OFFSETS}).plan(4)
    assert plan.clock == datetime.fromtimestamp(1_700_000_000, UTC)
    assert plan.kafka_end("requests") == {"0": 12, "1": 7}
    assert plan.kafka_end(None) == {}


def test_the_newest_batch_is_found_by_number_and_not_by_name(checkpoint: Make) -> None:
    assert checkpoint({"offsets/9": OFFSETS, "offsets/10": OFFSETS, "offsets/.10.crc": ""}).last_batch() == 10


def test_the_first_offsets_are_read_past_sparks_marker(checkpoint: Make) -> None:
    found = checkpoint({"sources/0/0": '0v1\n{"requests":{"0":5}}'}).first_offsets("requests")
    assert found == {"0": 5}


def test_a_query_that_never_started_has_no_id(checkpoint: Make) -> None:
    assert checkpoint({}).query_id() is None


@pytest.mark.parametrize("text", ["", "v1", "v2\n{}\n{}", "v1\n{", "v1\n{}\n-", OFFSETS[:40]])
def test_a_damaged_file_is_named_with_what_to_do(checkpoint: Make, text: str) -> None:
    with pytest.raises(BraidError, match=r"/c/offsets/7 is damaged\. Mend it\."):
        checkpoint({"metadata": '{"id": "q"}', "offsets/7": text}).verify()
