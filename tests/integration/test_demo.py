"""The demo plays the whole story, and every number of it is the true one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from braid.cli.demo.sent import page_days

BRAID = str(Path(sys.executable).with_name("braid"))


@pytest.mark.soak
def test_every_number_of_the_demo_is_true_and_nobody_is_left_behind(tmp_path: Path) -> None:
    environment = os.environ | {"BRAID_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [BRAID, "demo", "--json", "--events", "2000"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] is True
    assert len(found["checks"]) >= 17
    assert "<svg" in (tmp_path / "home" / "demo" / "accuracy.html").read_text()
    left = [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(tmp_path) in " ".join(process.info["cmdline"] or [])
    ]
    assert left == []


def test_what_two_senders_sent_is_added_up() -> None:
    first = {
        "page_traffic": [
            {"day": "d", "url": "/", "hits": 1, "bytes": None},
            {"day": "d", "url": "/a", "hits": 2, "bytes": 5},
        ]
    }
    second = {"page_traffic": [{"day": "d", "url": "/", "hits": 3, "bytes": 7}]}
    assert page_days([first, second]) == {("d", "/"): (4, 7), ("d", "/a"): (2, 5)}
    assert page_days([first])["d", "/"] == (1, None)
