"""A join by Spark gives the pairs that two loops over plain values give, and its events survive being written."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from braid import Join, Source
from braid.log.events import first_copies, log_schema
from braid.log.joined import as_lines, joined, side
from speed_layer.ingest.parse import parse

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
left = Source(
    name="a", kafka_topic="a", event_time="time", event_id="id", timezone="Asia/Tokyo",
    schema="id string, time timestamp, k string, n bigint, cost decimal(20,6), text string",
)  # fmt: skip
right = Source(
    name="b", kafka_topic="b", schema="id bigint, at timestamp, key string, n bigint", event_time="at", event_id="id"
)  # fmt: skip
join = Join(
    name="pairs", left=left, right=right, on={"k": "key", "n": "n"}, within=("1 second", "3 seconds"), time="right",
    columns={"cost": "left.cost", "text": "left.text", "began": "left.time",
             "gap": "cast(unix_micros(right.at) - unix_micros(left.time) as bigint)"},
)  # fmt: skip
LOW, HIGH = timedelta(seconds=1), timedelta(seconds=3)
TEXTS = ("", 'a "quoted" \\ text', "é\n\t", "}{", None, "0")


def rows(spark: Any, source: Source, events: list[dict[str, Any]]) -> Any:
    schema = log_schema(source)
    whole = [
        {"_partition": 0, "_offset": n, "_arrival": NOON, "_epoch": NOON, "day": NOON.date()} | event
        for n, event in enumerate(events)
    ]
    return spark.createDataFrame(pa.Table.from_pylist(whole, to_arrow_schema(schema)), schema)


def events(chance: random.Random, number: int, side_of: str) -> list[dict[str, Any]]:
    """Few keys, some null; times on the borders and a microsecond beside them; some ids twice and some none."""
    found = []
    for n in range(number):
        moment = NOON + timedelta(seconds=chance.randrange(8), microseconds=chance.choice((-1, 0, 0, 1)))
        key, small = chance.choice(("x", "y", "z", None)), chance.choice((1, 2, None))
        identity = chance.choice((None, n, n, n, max(n - 1, 0)))
        if side_of == "left":
            found.append({
                "id": None if identity is None else f"{identity}", "time": moment, "k": key, "n": small,
                "cost": chance.choice((None, Decimal("0.000001"), Decimal(-12345), Decimal("9" * 14 + ".999999"))),
                "text": chance.choice(TEXTS), "_error": chance.choice((None, None, None, "broken rule")),
            })  # fmt: skip
        else:
            found.append({"id": identity, "at": moment, "key": key, "n": small, "_error": None})
    return found


def firsts(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first copy of each id, and all that have none."""
    known: dict[Any, dict[str, Any]] = {}
    for n, event in enumerate(found):
        if event["_error"] is None:
            known.setdefault(("place", n) if event["id"] is None else event["id"], event)
    return list(known.values())


def twin(lefts: list[dict[str, Any]], rights: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (b["at"], a["cost"], a["text"], a["time"], (b["at"] - a["time"]) // timedelta(microseconds=1))
        for a in firsts(lefts)
        for b in firsts(rights)
        if None not in (a["k"], a["n"]) and (a["k"], a["n"]) == (b["key"], b["n"])
        and LOW <= b["at"] - a["time"] <= HIGH
    )  # fmt: skip


def test_a_join_gives_the_pairs_of_two_loops_whatever_the_order_and_what_is_written_is_read_as_it_was(
    spark: Any,
) -> None:
    chance = random.Random(7)
    lefts, rights = events(chance, 150, "left"), events(chance, 150, "right")
    ids = []
    for order in (1, -1):
        of_left, of_right = rows(spark, left, lefts), rows(spark, right, rights)
        if order == -1:
            # A log's files may be read in any order; places are what they were.
            of_left, of_right = (one.orderBy(F.col("_offset").desc()) for one in (of_left, of_right))
        pairs = joined(
            join,
            side(join, "left", first_copies(of_left.where("_error is null"), left)),
            side(join, "right", first_copies(of_right, right)),
        )
        written = as_lines(join, pairs).select(
            F.lit(0).cast("bigint").alias("_partition"), F.lit(0).cast("bigint").alias("_offset"),
            F.lit(NOON).alias("_arrival"), F.encode("line", "UTF-8").alias("_value"),
            F.lit(None).cast("string").alias("_refused"),
        )  # fmt: skip
        found = parse(join, written).collect()
        assert {row._error for row in found} == {None}
        plain = Counter((_utc(row.time), row.cost, row.text, _utc(row.began), row.gap) for row in found)
        assert plain == twin(lefts, rights)
        assert sum(plain.values()) > 50
        ids.append(sorted(row.id for row in found))
        assert len(set(ids[-1])) == len(found)
    assert ids[0] == ids[1]


def _utc(moment: datetime) -> datetime:
    """What Spark hands to Python is in the machine's zone."""
    return moment.astimezone(UTC)
