"""The demo plays the whole story, and every number of it is the true one."""

import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import psutil
import pytest

from braid.cli.demo.sent import page_days, true_arrivals
from braid.errors import CheckFailed
from braid.produce.truth import arrivals, truth
from braid.produce.weblog import ZONE, Weblog, weblog

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


def test_what_two_senders_say_of_arrivals_is_what_both_say_as_one() -> None:
    zone = ZoneInfo(ZONE)
    mess = Weblog(
        events=3000, late=0.2, duplicates=0.05, malformed=0.03, out_of_order=0.1, arrived_after_ms=0
    )
    later = Weblog(events=200, days=1, start=date(2024, 3, 9), seed=2, arrived_after_ms=3 * 86_400_000)
    both = [truth(weblog(options), zone) for options in (mess, later)]
    events = {
        record.key: (record.arrived_us, record.event.time_ms * 1000)
        for options in (mess, later)
        for record in weblog(options)
        if record.event and record.arrived_us and record.event.time_ms and (record.event.status or 0) < 400
    }
    known = arrivals(events.values())
    assert true_arrivals(*both) == {
        "within_seconds": known["within_seconds"],
        "dropped": known["dropped_by_a_watermark_of_10_minutes"],
    }
    # What was injected, within what chance and the view's filter leave of it.
    share = known["within_seconds"]["10"] / known["events"]
    assert 0.65 < share < 0.85
    with pytest.raises(CheckFailed, match="not later"):
        true_arrivals(both[1], both[0])
