"""Every example gives the same numbers by batch, stream and Kappa, and they are the naive truth."""

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from braid.examples.stage import NAMES, play_of
from braid.examples.stage.checks import Played
from braid.examples.stage.stage import Stage
from braid.infra.broker import Broker
from braid.runtime.settings import Settings
from tests.conftest import Answer
from tests.documents import module_at

DOCS = Path(__file__).parents[2] / "docs"
# The others take half a minute each with a warm session, and show nothing that would break alone.
QUICK = ("words", "billing", "sensors")


def picture_of(played: Played) -> str:
    module = module_at("pictures")
    return str(module.picture(json.loads(json.dumps(played.as_dict()))))


def parts_of(picture: str) -> tuple[list[str], list[float]]:
    """What stands around a picture's numbers, and these."""
    number = r"-?\d+(?:\.\d+)?"
    return re.split(number, picture), [float(found) for found in re.findall(number, picture)]


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.soak) for name in NAMES]
)
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
    drawn = (DOCS / "examples" / f"{name}.svg").read_text(encoding="utf-8")
    (text, numbers), (drawn_text, drawn_numbers) = parts_of(picture_of(played)), parts_of(drawn)
    # The last bit of a mean depends on the order of adding, and may move a point to the next tenth of a pixel.
    near = pytest.approx(drawn_numbers, abs=0.11)
    assert (text, numbers) == (drawn_text, near), f"run `python docs/pictures.py {name}`"


def test_an_unknown_example_is_refused_with_the_one_that_was_meant(
    braid: Callable[..., Answer], home: Path
) -> None:
    refused = braid("demo", "wrods")
    assert refused.code == 2
    assert (
        "there is no example 'wrods'. Did you mean 'words'? The examples are: words, hashtags" in refused.err
    )
    refused = braid("demo", "words", "--events", "2000")
    assert refused.code == 2
    assert "example 'words' brings its own. Leave it out." in refused.err
    assert not home.exists()


@pytest.mark.soak
def test_a_demo_of_an_example_says_what_it_found_and_leaves_nobody_behind(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("braid")), "demo", "words", "--json"]
    environment = os.environ | {"BRAID_HOME": str(tmp_path / "home")}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] is True
    assert found["results"][0]["rows"][0][0] == "the"
    assert "replaying history into a new version of word_counts (Kappa): " in done.stderr
    processes = psutil.process_iter(["cmdline"])
    assert [one for one in processes if str(tmp_path) in " ".join(one.info["cmdline"] or [])] == []
