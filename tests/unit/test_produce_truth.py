"""The truth equals a naive recount of the bytes that were sent, and knows why a malformed record is refused."""

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from braid.cli.options import require_writable
from braid.errors import BraidError
from braid.produce.record import (
    BROKEN_RULE,
    CLOCK,
    DUPLICATE,
    NO_EVENT_TIME,
    UNPARSABLE,
    WRONG_TYPE,
    Event,
    Record,
)
from braid.produce.truth import ids_digest, truth, write_truth
from braid.produce.weblog import FLAWS, ZONE, Weblog, weblog

OPTIONS = Weblog(
    events=20_000, late=0.2, duplicates=0.05, duplicates_far=0.01, malformed=0.03, out_of_order=0.1
)


@pytest.fixture(scope="module")
def records():
    return list(weblog(OPTIONS))


@pytest.fixture(scope="module")
def answer(records):
    return truth(records, ZoneInfo(ZONE))


def judged(value: bytes | None) -> tuple[str | None, Any]:
    """What is wrong with the bytes of a record, from the schema of requests alone."""
    try:
        row = json.loads((value or b"").decode())
    except ValueError:
        row = None
    return (problem(row) if isinstance(row, dict) else UNPARSABLE), row


def problem(row: dict) -> str | None:
    if row.get("time") is None:
        return NO_EVENT_TIME
    try:
        row["moment"] = datetime.fromisoformat(row["time"])
    except ValueError:
        return WRONG_TYPE
    if any(type(number) is not int for number in (row["status"], row.get("bytes") or 0)):
        return WRONG_TYPE
    if not datetime(1970, 1, 1, tzinfo=UTC) <= row["moment"] <= datetime.now(UTC):
        return CLOCK
    return None if 100 <= row["status"] <= 599 else BROKEN_RULE


def test_the_truth_equals_a_naive_recount_of_the_bytes(records, answer):
    ids, days, pages, reasons, duplicates = set(), Counter(), defaultdict(list), Counter(), 0
    for record in records:
        reason, row = judged(record.value)
        if reason:
            reasons[reason] += 1
        elif row["id"] in ids:
            duplicates += 1
        else:
            ids.add(row["id"])
            day = row["moment"].astimezone(ZoneInfo(ZONE)).date().isoformat()
            days[day] += 1
            if row["status"] < 400:
                pages[day, row["url"]].append(row)
    assert answer["sent"] == len(records)
    assert answer["ids"] == sorted(ids)
    assert answer["accepted"] == len(ids)
    assert answer["duplicates"] == duplicates
    assert answer["rejected_by_reason"] == reasons
    assert answer["sent"] == answer["accepted"] + answer["rejected"] + answer["duplicates"]
    assert {day: numbers["events"] for day, numbers in answer["days"].items()} == days
    for row in answer["page_traffic"]:
        rows = pages.pop((row["day"], row["url"]))
        sizes = [one["bytes"] for one in rows if one.get("bytes") is not None]
        assert row["hits"] == len(rows)
        assert row["bytes"] == (sum(sizes) if sizes else None)
        assert row["visitors"] == len({one["host"] for one in rows})
    assert not pages


def test_a_day_has_its_statuses_and_its_bytes(records, answer):
    accepted = {record.event.id: record.event for record in records if record.event}.values()
    assert sum(numbers["bytes"] for numbers in answer["days"].values()) == sum(
        one.bytes or 0 for one in accepted
    )
    for numbers in answer["days"].values():
        assert sum(numbers["statuses"].values()) == numbers["events"]


def test_lateness_is_measured_against_what_was_sent_before(answer):
    late = answer["late"]
    assert (
        late["more than 1 minute behind"]
        > late["more than 1 hour behind"]
        > late["more than 1 day behind"]
        > 0
    )
    assert late["longest_seconds"] > 86_400


def test_far_duplicates_are_recorded_apart(answer, records):
    far = answer["duplicates_by_distance"]
    assert far["far"] == len(far["far_ids"]) == sum(record.kind == "far duplicate" for record in records)
    assert far["near"] + far["far"] == answer["duplicates"]


def test_a_small_run_has_every_kind_of_malformed_record_with_the_reason_that_ingest_must_give():
    records = list(weblog(Weblog(events=len(FLAWS), malformed=1)))
    assert {record.kind for record in records} == set(FLAWS)
    for record in records:
        assert judged(record.value)[0] == record.reason, record.kind


def test_every_malformed_record_has_the_recorded_reason(records):
    for record in records:
        assert judged(record.value)[0] == record.reason, record


def test_the_first_acknowledged_copy_counts_even_when_it_is_the_duplicate():
    event = Event("a", 0, "h", "/", 200, 5)
    answer = truth(
        [Record(b"a", b"{}", DUPLICATE, event), Record(b"a", b"{}", "event", event)], ZoneInfo("UTC")
    )
    assert (answer["accepted"], answer["duplicates"]) == (1, 1)


def test_a_day_begins_at_midnight_of_the_zone():
    before, after = (Event(name, ms) for name, ms in (("a", 1_709_873_999_999), ("b", 1_709_874_000_000)))
    answer = truth([Record(b"", b"", "event", one) for one in (before, after)], ZoneInfo("America/New_York"))
    assert {day: numbers["events"] for day, numbers in answer["days"].items()} == {
        "2024-03-07": 1,
        "2024-03-08": 1,
    }


def test_the_file_holds_the_options_the_ids_and_their_digest(answer, tmp_path):
    path = tmp_path / "truth.json"
    write_truth(path, {"options": OPTIONS.as_dict()}, answer)
    written = json.loads(path.read_text())
    assert written["options"]["seed"] == 1
    assert written["ids"] == answer["ids"]
    assert written["ids_sha256"] == ids_digest(reversed(answer["ids"]))
    assert [one.name for one in tmp_path.iterdir()] == ["truth.json"]


def test_a_truth_that_cannot_be_written_is_refused_before_anything_is_sent(tmp_path):
    with pytest.raises(BraidError, match="name a file in a folder that exists"):
        require_writable(tmp_path / "nowhere" / "truth.json")
    with pytest.raises(BraidError, match="name a file"):
        require_writable(tmp_path)
