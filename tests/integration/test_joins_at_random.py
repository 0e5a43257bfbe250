"""A join of a join, fed at random and in any order, ends with the pairs that loops over plain values find."""

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from batch_layer.compare_derived import compare
from batch_layer.derived import correct
from braid import Join, Source, View, count, sum_, tumbling
from braid.define.derived.base import with_inputs
from braid.define.derived.join import JoinedSource
from braid.log.table import Log
from braid.runtime.settings import Settings
from speed_layer.jobs.engine import stream
from speed_layer.ledger.balance import take_stock
from tests.streams import recomputed, served, tables_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOMORROW = timedelta(days=1)
TEN, TWENTY = timedelta(minutes=10), timedelta(minutes=20)
AGAIN = 10
Event = dict[str, Any]


def events(chance: random.Random, name: str, number: int) -> list[Event]:
    """Few keys; every tenth id comes again on the next day, which is another event."""
    first = [
        {
            "id": f"{name}{n}",
            "time": NOON + timedelta(seconds=chance.randrange(7200)),
            "k": chance.choice("pqrst"),
            "n": n,
        }
        for n in range(number)
    ]
    return first + [event | {"time": event["time"] + TOMORROW, "n": -event["n"]} for event in first[::AGAIN]]


def chunks(chance: random.Random, every: list[Event], number: int) -> list[list[Event]]:
    """In no order, some later than a stream waits, some again in a later chunk; of an id that comes again, the event of
    the first day is in the first and the other in the last, or ingest would take it for a copy."""
    parts: list[list[Event]] = [[] for _ in range(number)]
    for event in every:
        comes_again = event["n"] % AGAIN == 0
        place = chance.randrange(number)
        if comes_again:
            place = 0 if event["time"] < NOON + TOMORROW / 2 else number - 1
        parts[place].append(event)
        if chance.random() < 0.15 and not comes_again:
            parts[chance.randrange(place, number)].append(event)
    for part in parts:
        chance.shuffle(part)
    return parts


def pairs(lefts: Iterable[Event], rights: Iterable[Event], within: timedelta) -> list[Event]:
    """As the join is defined: the time of the right one, and both numbers."""
    return [
        {"time": b["time"], "k": a["k"], "n": a["n"] + b["n"]}
        for a in once(lefts)
        for b in once(rights)
        if a["k"] == b["k"] and timedelta(0) <= b["time"] - a["time"] <= within
    ]


def once(some: Iterable[Event]) -> list[Event]:
    """Copies are alike; what a join has made has no id here, and is there once."""
    return list({(event.get("id", at), event["time"]): event for at, event in enumerate(some)}.values())


def plain(some: Iterable[Event]) -> list[tuple[Any, ...]]:
    return sorted((event["time"].replace(tzinfo=None), event["k"], event["n"]) for event in some)


class Home:
    """Three folders, two joins and a view of the second."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.settings = Settings(
            home=str(folder / "home"), spark_master="local[2]", spark_memory="1g", epoch=timedelta(seconds=1)
        )
        a, b, c = (
            Source(
                name=name, files=f"{folder}/{name}/*.jsonl", schema="id string, time timestamp, k string, n bigint",
                event_time="time", event_id="id", dedup_horizon="1 second",
            )
            for name in "abc"
        )  # fmt: skip
        columns = {"k": "left.k", "n": "cast(left.n + right.n as bigint)"}
        given: dict[str, Any] = {"on": "k", "columns": columns, "lateness": "1 minute"}
        self.ab = Join(name="ab", left=a, right=b, within=("0 minutes", "10 minutes"), **given)
        self.abc = Join(name="abc", left=self.ab, right=c, within=("0 minutes", "20 minutes"), **given)
        self.view = View(
            name="threes", source=self.abc, keys=("k",), window=tumbling("1 hour"),
            measures={"threes": count(), "sum": sum_("n")},
        )  # fmt: skip
        for name in "abc":
            (folder / name).mkdir()

    def put(self, at: int, parts: dict[str, list[Event]]) -> None:
        for name, some in parts.items():
            text = "".join(json.dumps(one | {"time": one["time"].isoformat()}) + "\n" for one in some)
            (self.folder / name / f"{at}.jsonl").write_text(text)

    def stream(self) -> None:
        sources = with_inputs([self.abc])[::-1]
        stream(self.spark, [self.view], self.settings, sources=sources, only=True, once=True)

    def correct(self) -> int:
        return correct(lambda: self.spark, self.settings, [self.abc])

    def held(self, join: JoinedSource) -> list[tuple[Any, ...]]:
        rows = self.spark.read.format("delta").load(Log(join, self.settings).table)
        assert rows.where("_error is not null").count() == 0
        # A copy that comes after the horizon of deduplication is in a log twice; views count the first.
        found = rows.dropDuplicates(["id", "day"]).select("time", "k", "n").collect()
        return sorted((row.time, row.k, row.n) for row in found)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_a_join_of_a_join_ends_with_what_loops_find_whatever_came_when(
    spark: Any, tmp_path: Path, seed: int
) -> None:
    chance, home = random.Random(seed), Home(spark, tmp_path)
    parts = {name: chunks(chance, events(chance, name, 120), 3) for name in "abc"}
    known: dict[str, list[Event]] = {name: [] for name in "abc"}
    for at in range(3):
        home.put(at, {name: some[at] for name, some in parts.items()})
        home.stream()
        for name, some in parts.items():
            known[name] += some[at]
        twos = pairs(known["a"], known["b"], TEN)
        report = compare(spark, home.ab, home.settings)
        assert (report.events, report.extra, report.waiting) == (len(twos), 0, 0)
        assert report.missing == len(twos) - len(home.held(home.ab))
        if at == 1:
            # What was too late is added between what comes in time, and what comes after it.
            assert home.correct() >= report.missing > 0
    added = 0
    # What batch adds to the first join is late for the second one, which batch corrects when it is there.
    while more := home.correct():
        added += more
        home.stream()
    assert added > 0
    # Copies that came after the horizon are in the inputs' logs, and are drawn from once.
    assert spark.read.format("delta").load(Log(home.ab.left, home.settings).table).count() > len(
        once(known["a"])
    )
    threes = pairs(twos, known["c"], TWENTY)
    assert min(len(twos), len(threes)) > 100
    assert home.held(home.ab) == plain(twos)
    assert home.held(home.abc) == plain(threes)
    for source in with_inputs([home.abc]):
        assert take_stock(Log(source, home.settings)).balanced, source.name
    tables = tables_of(home.settings, home.view)
    assert served(spark, home.view, tables) == recomputed(spark, home.view, home.settings)
    elsewhere = replace(home.ab, lateness="1 hour")
    assert compare(spark, elsewhere, home.settings).missing == 0
