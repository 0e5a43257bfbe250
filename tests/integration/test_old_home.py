"""A home that an earlier release wrote is opened, served and continued by this one, with the same numbers.

`tests/homes/make.py` says how an archive is made, and when there has to be another one.
"""

import json
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.conftest import Answer, free_port
from tests.homes.make import DAYS, TOPIC, VIEWS, events, malformed, parsed
from tests.kafka import send

ARCHIVES = sorted((Path(__file__).parents[1] / "homes").glob("*.tar.xz"))
ZONE = ZoneInfo("America/New_York")
HALF_AN_HOUR = timedelta(minutes=30)
DAY_AFTER = "2024-03-11"

Event = dict[str, Any]
Numbers = dict[tuple[Any, ...], dict[str, Any]]


@dataclass
class OldHome:
    """A home as its release left it, somewhere else, with its broker running."""

    folder: Path
    bootstrap: str
    command: Callable[..., Answer]

    def braid(self, command: str) -> str:
        answer = self.command(*command.split())
        assert answer.code == 0, f"braid {command}: {answer.err}{answer.out}"
        return answer.out

    def ask(self, question: str) -> Any:
        return parsed(question, self.braid(question))

    def expected(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "expected.json").read_text())
        return found

    def records(self) -> list[str]:
        return (self.folder / "records.jsonl").read_text().splitlines()

    def numbers(self, view: str) -> Numbers:
        """What is served, by keys and the begin of the window."""
        rows = self.ask(f"query {view} --json")["rows"]
        return {
            tuple(
                datetime.fromisoformat(row.pop(name)) if name.startswith("window") else row.pop(name)
                for name in ("url", "land", "host", "window_start", "window_end")
                if name in row and (view, name) != ("hosts", "land")
            ): {name: value for name, value in row.items() if not name.startswith("_")}
            for row in rows
        }

    def provenance(self, view: str) -> Any:
        return self.ask(f"query {view} --json")["provenance"]


@pytest.fixture(params=ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.xz"))
def old(
    request: pytest.FixtureRequest,
    home: Path,
    spark: Any,
    braid: Callable[..., Answer],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[OldHome]:
    with tarfile.open(request.param) as archive:
        archive.extractall(home.parent, filter="data")
    port = free_port()
    settings = {
        "DEFINITIONS": home.parent / "definitions.py",
        "KAFKA_PORT": port,
        "KAFKA_CONTROLLER_PORT": free_port(),
        "SPARK_MASTER": "local[2]",
        # A tail stays until a test says otherwise, however old it is.
        "FOLD_EVERY": "36500 days",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"BRAID_{name}", str(value))
    opened = OldHome(home.parent, f"127.0.0.1:{port}", braid)
    opened.braid("broker start")
    yield opened
    opened.braid("broker stop")


def test_there_is_a_home_of_an_earlier_release() -> None:
    assert ARCHIVES


def test_an_old_home_is_served_with_the_numbers_that_its_release_gave(old: OldHome) -> None:
    for question, answer in old.expected().items():
        assert as_far_as(answer, old.ask(question)) == answer, question
    assert {view: old.numbers(view) for view in VIEWS} == truth(accepted(old.records()))


def test_an_old_home_is_continued_and_no_event_is_lost_or_counted_twice(
    old: OldHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = DAYS
    late = events(range(200, 212), first) + events(range(212, 220), second)
    new = events(range(220, 230), third) + events(range(230, 240), DAY_AFTER)
    # One that a base has, one that a tail has, and one that is new.
    copies = events([3], first) + events([115], third) + events([235], DAY_AFTER)
    sent = late + new + copies + malformed(902)
    records = old.records() + sent
    expected = truth(accepted(records))

    send(old.bootstrap, TOPIC, [record.encode() for record in sent])
    old.braid("ingest --once")
    old.braid("stream --once")
    assert {view: old.numbers(view) for view in VIEWS} == expected, "from base and tail"

    old.braid("batch run --stale")
    days = old.ask(f"batch plan --from {first} --to {second} --json")
    assert [day["state"] for day in days] == ["up to date"] * 4
    assert {view: old.numbers(view) for view in VIEWS} == expected, "with days that were computed again"

    before = {view: old.provenance(view) for view in VIEWS}
    monkeypatch.setenv("BRAID_FOLD_EVERY", "1 minute")
    old.braid("stream --once")
    old.braid("maintain")
    after = {view: old.provenance(view) for view in VIEWS}
    assert all(before[view]["tail_events"] > 0 for view in VIEWS)
    assert [after[view]["tail_events"] for view in ("hosts", "visits")] == [0, 0]
    assert {view: old.numbers(view) for view in VIEWS} == expected, "with tails that were folded"

    old.braid("kappa rollback visits")
    assert old.numbers("visits") == visits(accepted(records), timedelta(minutes=10)), "as it was before"

    books = old.ask("ledger requests --json")
    assert books["balanced"]
    found = {name: sum(account[name] for account in books["accounts"]) for name in books["accounts"][0]}
    refused = sum(one is None for one in map(event_of, records))
    assert (found["consumed"], found["accepted"], found["rejected"], found["duplicates"]) == (
        len(records), len(accepted(records)), refused, len(records) - refused - len(accepted(records)),
    )  # fmt: skip


def as_far_as(old: Any, new: Any) -> Any:
    """A later release may say more than an earlier one did: only what that one said is compared."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {name: as_far_as(old[name], new[name]) for name in old if name in new}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [as_far_as(*pair) for pair in zip(old, new, strict=True)]
    return new


def event_of(record: str) -> Event | None:
    """An event; None for a record that must be refused."""
    try:
        event: Event = json.loads(record)
    except ValueError:
        return None
    if event["time"] is None or not isinstance(event["bytes"], int) or not 100 <= event["status"] <= 599:
        return None
    return event | {"time": datetime.fromisoformat(event["time"]).astimezone(ZONE)}


def accepted(records: list[str]) -> list[Event]:
    """Each event once."""
    found = [event for event in map(event_of, records) if event is not None]
    return list({event["id"]: event for event in found}.values())


def truth(events: list[Event]) -> dict[str, Numbers]:
    """What each view must say, computed without any of Braid."""
    return {
        "page_traffic": page_traffic(events),
        "hosts": {(event["host"],): {"land": event["country"]} for event in events},
        "lands": lands(events),
        "visits": visits(events, HALF_AN_HOUR),
    }


def page_traffic(events: list[Event]) -> Numbers:
    groups = defaultdict(list)
    for event in (event for event in events if event["status"] < 400):
        time = event["time"]
        pane = time.replace(minute=time.minute // 30 * 30, second=0)
        for start in (pane, later(pane, -HALF_AN_HOUR)):
            groups[event["url"], start, later(start, 2 * HALF_AN_HOUR)].append(event)
    return {
        group: {
            "hits": len(found),
            "bytes": sum(event["bytes"] for event in found),
            "visitors": len({event["host"] for event in found}),
        }
        for group, found in groups.items()
    }


def lands(events: list[Event]) -> Numbers:
    groups = defaultdict(list)
    for event in events:
        start = event["time"].replace(hour=0, minute=0, second=0)
        # A day ends where the next begins, also if that is after 23 hours.
        groups[event["country"], start, start + timedelta(days=1)].append(event["bytes"])
    return {
        group: {"requests": len(sizes), "mean_bytes": pytest.approx(sum(sizes) / len(sizes), rel=1e-12)}
        for group, sizes in groups.items()
    }


def visits(events: list[Event], gap: timedelta) -> Numbers:
    sessions: dict[str, list[list[Event]]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event["time"].timestamp()):
        of_host = sessions[event["host"]]
        if of_host and event["time"].timestamp() - of_host[-1][-1]["time"].timestamp() <= gap.total_seconds():
            of_host[-1].append(event)
        else:
            of_host.append([event])
    return {
        (host, session[0]["time"], later(session[-1]["time"], gap)): {
            "requests": len(session),
            "bytes": sum(event["bytes"] for event in session),
            "p95_bytes": pytest.approx(
                sorted(event["bytes"] for event in session)[int(0.95 * (len(session) - 1))], rel=0.01
            ),
        }
        for host, found in sessions.items()
        for session in found
    }


def later(time: datetime, by: timedelta) -> datetime:
    """So much time later, and not so much on the clock: in a night of March that is not the same."""
    return datetime.fromtimestamp(time.timestamp() + by.total_seconds(), ZONE)
