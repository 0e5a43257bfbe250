"""Made-up events with every kind of disorder, and real ones with theirs: all that differs is what was put in."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from zoneinfo import ZoneInfo

import pytest

from braid.states.calendar import pane_start
from tests.conftest import Answer
from tests.waiting import until

DEFINITIONS = """
from braid import Source, View, count, max_, sum_, tumbling

requests = Source(
    name="requests", files="{drop}/*.jsonl",
    schema="id string, time timestamp, host string, url string, status int, bytes bigint",
    event_time="time", event_id="id", timezone="America/New_York", dedup_horizon="1 second",
    rules={{"status is an HTTP code": "status between 100 and 599"}},
)
traffic = View(
    name="traffic", source=requests, keys=("url",), window=tumbling("1 hour"), mode="kappa",
    measures={{"hits": count(), "bytes": sum_("bytes")}},
)
quakes = Source(
    name="quakes", files="{drop}/*.quakes",
    schema="id string, time timestamp, updated timestamp, mag double, place string",
    event_time="time", event_id="id",
)
by_hour = View(
    name="by_hour", source=quakes, window=tumbling("1 hour"), mode="kappa",
    measures={{"quakes": count(), "strongest": max_("mag")}},
)
"""
HORIZON = timedelta(seconds=1)
WATERMARK = timedelta(minutes=10)
UTC_ZONE = ZoneInfo("UTC")


@pytest.fixture
def run(
    braid: Callable[..., Answer], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Answer]:
    """Runs a command in a shop that reads the files of a folder."""
    (tmp_path / "drop").mkdir()
    (tmp_path / "definitions.py").write_text(DEFINITIONS.format(drop=tmp_path / "drop"))
    monkeypatch.setenv("BRAID_DEFINITIONS", str(tmp_path / "definitions.py"))
    monkeypatch.setenv("BRAID_EPOCH", "1 second")

    def command(*arguments: str) -> Answer:
        done = braid(*arguments)
        assert done.code == 0, done.err
        return done

    return command


@pytest.mark.usefixtures("spark")
def test_the_causes_of_all_differences_are_what_the_generator_put_in(
    run: Callable[..., Answer], tmp_path: Path
) -> None:
    made, truth_file, drop = tmp_path / "made", tmp_path / "truth.json", tmp_path / "drop"
    shares = {"late": 0.2, "duplicates": 0.05, "duplicates-far": 0.02, "malformed": 0.03}
    options = [text for name, share in shares.items() for text in (f"--{name}", str(share))]
    run("produce", "--events", "3000", *options, "--to", str(made), "--truth", str(truth_file))
    truth = json.loads(truth_file.read_text())
    far = truth["duplicates_by_distance"]["far"]
    lines = made.read_bytes().splitlines(keepends=True)
    # The far copies were sent last: they come when the horizon is over.
    ingested(run, drop / "1.jsonl", lines[:-far])
    over = datetime.now(UTC) + 5 * HORIZON
    until(lambda: datetime.now(UTC) > over)
    # An id is forgotten when something newer has come.
    ingested(run, drop / "2.jsonl", [b"a line that is no event\n"])
    ingested(run, drop / "3.jsonl", lines[-far:])
    run("stream", "traffic", "--once")

    report = json.loads(run("compare", "traffic", "--json").out)
    (found,) = report["comparisons"]
    assert found["unexplained"] == 0
    assert {cause["name"]: cause["events"] for cause in found["causes"]} == {
        "duplicate beyond the horizon": far
    }
    assert (found["events"], found["twice"], found["lost"]) == (truth["accepted"], far, 0)
    rejected = dict(truth["rejected_by_reason"])
    # A file has no empty records; and there is the line of ours.
    rejected["unparsable"] += 1 - truth["kinds"]["empty value"] - truth["kinds"]["null value"]
    assert report["log"] == {
        "accepted": truth["accepted"] + far, "copies": far, "rejected": sum(rejected.values()),
        "rejected_by_reason": rejected, "duplicates_dropped": truth["duplicates_by_distance"]["near"],
    }  # fmt: skip
    bars = report["lateness"]["bars"]
    behind = sum(
        bar["behind"] for bar in bars if bar["within_seconds"] is None or bar["within_seconds"] > 3_600
    )
    assert behind == truth["late"]["more than 1 hour behind"]


def ingested(run: Callable[..., Answer], file: Path, lines: list[bytes]) -> None:
    file.write_bytes(b"".join(lines))
    run("ingest", "requests", "--once")


@pytest.mark.usefixtures("spark")
def test_earthquakes_in_the_order_of_their_revisions_are_all_counted_and_a_watermark_would_drop_most(
    run: Callable[..., Answer], shared_data: Path, tmp_path: Path
) -> None:
    file, made = shared_data / "usgs" / "all_month_quakewatch.csv", tmp_path / "drop" / "all.quakes"
    run("produce", "--csv", str(file), "--source", "quakes", "--arrival", "updated", "--to", str(made))
    run("ingest", "quakes", "--once")
    run("stream", "by_hour", "--once")
    report = json.loads(run("compare", "by_hour", "--arrival", "updated", "--json").out)
    (found,) = report["comparisons"]
    assert found["equal"] == found["groups"] > 500
    assert (found["events"], report["braid"]["lost"], report["braid"]["twice"]) == (9_462, 0, 0)
    assert report["completeness"]["clock"] == "column"
    quakes = [json.loads(line) for line in made.read_text().splitlines()]
    late = [(time_of(quake["updated"]) - time_of(quake["time"])).total_seconds() for quake in quakes]
    assert report["lateness"]["median_seconds"] == pytest.approx(median(late))
    assert median(late) > 18 * 3_600
    assert report["what_if"]["watermark"]["lost"] == dropped_by_hand(quakes) > 4_000


def dropped_by_hand(quakes: list[dict[str, str]]) -> int:
    """The events whose hour had been closed for ten minutes when they came."""
    dropped, newest = 0, None
    for quake in quakes:
        time = time_of(quake["time"])
        end = pane_start(time, timedelta(hours=1), UTC_ZONE) + timedelta(hours=1)
        dropped += newest is not None and end <= newest - WATERMARK
        newest = time if newest is None else max(newest, time)
    return dropped


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text)
