"""Pace, interruption and the file outlet, with a clock of the test's own."""

import json
import signal
import threading
from contextlib import nullcontext
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from braid.errors import BraidError
from braid.produce.outlet import FileOutlet
from braid.produce.run import Production, paced, run
from braid.produce.weblog import Weblog, weblog

# So many that no machine has sent them all before it hears of a signal.
EVENTS = 200_000


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def plan(events: int = 50) -> Production:
    return Production(weblog(Weblog(events=events)), {"scenario": "weblog"}, events, ZoneInfo("UTC"))


def test_records_come_at_the_rate_that_was_asked_for():
    clock = Clock()
    for number, _ in enumerate(paced(weblog(Weblog(events=30)), 10.0, clock, clock.wait)):
        assert clock.now == pytest.approx(100 + number / 10)


def test_time_lost_is_caught_up():
    clock = Clock()
    records = paced(weblog(Weblog(events=100)), 10.0, clock, clock.wait)
    next(records)
    clock.now += 5
    for _ in range(50):
        next(records)
    assert clock.now == pytest.approx(105.0)
    next(records)
    assert clock.now == pytest.approx(105.1)


def test_a_rate_of_0_never_waits():
    clock = Clock()
    assert len(list(paced(weblog(Weblog(events=100)), 0, clock, clock.wait))) == 100
    assert clock.now == 100


def test_a_file_has_a_record_a_line_and_appears_when_it_is_complete(tmp_path: Path):
    path = tmp_path / "drop.jsonl"
    records = list(weblog(Weblog(events=200, malformed=0.5)))
    seen = []

    def on_ack(record: object) -> None:
        assert not path.exists()
        seen.append(record)

    sent = FileOutlet(path).send(records, on_ack, threading.Event())
    assert path.read_bytes() == b"".join((record.value or b"") + b"\n" for record in records)
    assert (sent.acknowledged, sent.partitions) == (200, {0: (200, 0, 199)})
    assert seen == records
    assert [one.name for one in tmp_path.iterdir()] == ["drop.jsonl"]


def test_the_truth_of_an_interrupted_run_is_of_what_was_sent(tmp_path: Path):
    out, truth = tmp_path / "out.jsonl", tmp_path / "truth.json"
    seen = []

    def on_ack(record: object) -> None:
        seen.append(record)
        if len(seen) == 20:
            signal.raise_signal(signal.SIGINT)

    summary = run(plan(EVENTS), nullcontext(FileOutlet(out)), rate=0, truth_file=truth, on_ack=on_ack)
    assert summary.interrupted
    assert 20 <= summary.acknowledged == len(seen) < EVENTS
    ids = sorted(json.loads(line)["id"] for line in out.read_text().splitlines())
    assert json.loads(truth.read_text())["ids"] == ids
    assert len(ids) == len(seen)


def test_the_truth_of_a_failed_run_is_of_what_was_sent(tmp_path: Path):
    truth = tmp_path / "truth.json"

    class Failing:
        def send(self, records, on_ack, stop):
            on_ack(next(iter(records)))
            raise BraidError("gone")

    with pytest.raises(BraidError, match="gone"):
        run(plan(), nullcontext(Failing()), rate=0, truth_file=truth, on_ack=lambda record: None)
    assert json.loads(truth.read_text())["sent"] == 1


def test_a_summary_says_how_fast_it_was(tmp_path: Path):
    ticks = iter([10.0, 12.5])
    done = run(
        plan(), nullcontext(FileOutlet(tmp_path / "a")), rate=0, truth_file=None, on_ack=lambda record: None,
        clock=lambda: next(ticks),
    )  # fmt: skip
    assert done.as_dict() == {
        "sent": 50,
        "kinds": {"event": 50},
        "seconds": 2.5,
        "events_per_second": 20,
        "interrupted": False,
        "partitions": {"0": {"records": 50, "first_offset": 0, "last_offset": 49}},
    }
