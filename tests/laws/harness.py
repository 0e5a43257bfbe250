"""What the law tests share: one source, a view for any window, events as DataFrames, and what "the same" means."""

import math
import random
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from braid import (
    Source,
    View,
    approx_distinct,
    count,
    max_,
    mean,
    min_,
    quantile,
    stddev,
    sum_,
)
from braid.define.windows import AllTime, Session, Window
from braid.measures import Measure
from braid.states.calendar import local_day
from tests.laws import twin

NEW_YORK = "America/New_York"
MEASURES: dict[str, Measure] = {
    "events": count(), "hosts_given": count("host"),
    "n_sum": sum_("n"), "status_sum": sum_("status"), "price_sum": sum_("price"), "x_sum": sum_("x"),
    "n_min": min_("n"), "x_min": min_("x"), "x_max": max_("x"), "host_max": max_("host"), "price_min": min_("price"),
    "n_mean": mean("n"), "price_mean": mean("price"), "x_mean": mean("x"),
    "x_stddev": stddev("x"), "status_stddev": stddev("status"),
    "hosts": approx_distinct("host"), "xs": approx_distinct("x"), "prices": approx_distinct("price"),
    "x_median": quantile("x", 0.5), "x_p95": quantile("x", 0.95), "n_p10": quantile("n", 0.1),
}  # fmt: skip
ONE_OF_EACH = {
    name: MEASURES[name]
    for name in ("events", "n_sum", "price_sum", "x_min", "x_max", "n_mean", "x_stddev", "hosts", "x_p95")
}
SCHEMA = pa.schema(
    {
        "case": pa.int32(), "batch": pa.int32(), "time": pa.timestamp("us", tz="UTC"), "day": pa.date32(),
        "host": pa.string(), "n": pa.int64(), "status": pa.int32(), "price": pa.decimal128(28, 3), "x": pa.float64(),
    }
)  # fmt: skip


def view(window: Window, measures: Mapping[str, Measure] = MEASURES, timezone: str = NEW_YORK) -> View:
    source = Source(
        name="events",
        kafka_topic="events",
        event_time="time",
        timezone=timezone,
        schema="case int, batch int, time timestamp, host string, n bigint, status int, price decimal(28,3), x double",
    )
    return View(name="law", source=source, keys=("case",), window=window, measures=measures)


def instants(first: datetime, last: datetime) -> st.SearchStrategy[datetime]:
    whole_seconds = st.integers(int(first.timestamp()), int(last.timestamp())).map(
        lambda s: datetime.fromtimestamp(s, UTC)
    )
    return whole_seconds | st.datetimes(
        first.replace(tzinfo=None), last.replace(tzinfo=None), timezones=st.just(UTC)
    )


def event_strategy(times: st.SearchStrategy[datetime]) -> st.SearchStrategy[twin.Event]:
    """Nulls, zeros of both signs, infinities, NaN, the widest integers and decimals, empty and odd text."""
    special = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1e-310, 1e150, -1e150])
    return st.fixed_dictionaries(
        {
            "time": times,
            "host": st.none()
            | st.sampled_from(["", "a", "b", "\x00b", "ä", "😀"])
            | st.text(st.characters(codec="utf-8"), max_size=3),
            "n": st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-50, 50),
            "status": st.none() | st.integers(-(2**31), 2**31 - 1) | st.integers(100, 600),
            "price": st.none() | st.integers(-(10**28) + 1, 10**28 - 1).map(lambda i: Decimal(i).scaleb(-3)),
            "x": st.none() | st.floats(-1e6, 1e6) | st.floats(-1e150, 1e150) | special,
        }
    )


def random_events(n: int, seed: int, first: datetime, seconds: int, cases: int = 3) -> list[twin.Event]:
    """Ordinary events in number: skewed sizes, many hosts, some nulls."""
    rng = random.Random(seed)
    start = first.timestamp()
    return [
        {
            "case": rng.randrange(cases),
            "batch": rng.randrange(7),
            "time": datetime.fromtimestamp(start + rng.randrange(seconds), UTC),
            "host": None if rng.random() < 0.01 else f"host{int(rng.paretovariate(0.7)) % 5000}",
            "n": None if rng.random() < 0.01 else int(rng.lognormvariate(8, 2)),
            "status": rng.choice([200, 304, 404, 500]),
            "price": None if rng.random() < 0.01 else Decimal(rng.randrange(10**6)).scaleb(-3),
            "x": None if rng.random() < 0.01 else rng.gauss(0, 100),
        }
        for _ in range(n)
    ]


def frame(spark: SparkSession, events: list[twin.Event], timezone: str = NEW_YORK) -> DataFrame:
    zone = ZoneInfo(timezone)
    rows = [{"case": 0, "batch": 0} | e | {"day": local_day(e["time"], zone)} for e in events]
    return spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))


def windows_by_hand(window: Window, times: list[datetime], timezone: str) -> dict[Any, list[int]]:
    if isinstance(window, AllTime):
        return {None: list(range(len(times)))} if times else {}
    if isinstance(window, Session):
        return twin.sessions(times, window.gap)
    by_hand = twin.elapsed_windows if window.every.total_seconds() <= 3600 else twin.calendar_windows
    return by_hand(times, window.size, window.every, ZoneInfo(timezone))


def expected(
    definition: View, events: list[twin.Event], window: Window | None = None
) -> dict[Any, list[twin.Event]]:
    """(case, window) -> its events, by the twin."""
    cases = defaultdict(list)
    for event in events:
        cases[event.get("case", 0)].append(event)
    found = {}
    for case, members in cases.items():
        times = [event["time"] for event in members]
        windows = windows_by_hand(window or definition.window, times, definition.source.timezone)
        found |= {(case, bounds): [members[i] for i in inside] for bounds, inside in windows.items()}
    return found


def answers(presented: pa.Table) -> dict[Any, dict[str, Any]]:
    """(case, window) -> the presented row."""
    rows = presented.to_pylist()
    bounded = "window_start" in presented.column_names
    found = {(r["case"], (r["window_start"], r["window_end"]) if bounded else None): r for r in rows}
    assert len(found) == len(rows), "a window was presented twice"
    return found


def assert_equals_twin(
    definition: View, presented: pa.Table, events: list[twin.Event], window: Window | None = None
) -> None:
    want, got = expected(definition, events, window), answers(presented)
    assert sorted(got, key=str) == sorted(want, key=str)
    for key, members in want.items():
        for name, measure in definition.measures.items():
            assert_agrees(got[key][name], measure, members, f"{name} of {key}")


def assert_agrees(got: Any, measure: Measure, members: list[twin.Event], what: str) -> None:
    arguments = {k: v for k, v in measure.spec().items() if k in ("column", "q")}
    answer = twin.TWINS[measure.kind](members, **arguments)
    if answer is None or got is None or isinstance(answer, str | datetime):
        assert got == answer, what
        return
    if isinstance(answer, float) and not math.isfinite(answer):
        assert repr(float(got)) == repr(answer), what
        return
    inputs = (
        [] if measure.kind in ("count", "approx_distinct") else twin.values(members, measure.column or "")
    )
    allowed = twin.tolerance(measure.kind, inputs, answer)
    difference = abs(Fraction(got) - Fraction(answer))
    assert difference <= allowed, f"{what}: {got!r} is not {answer!r} (+- {allowed})"


def assert_same_numbers(
    one: pa.Table, other: pa.Table, *, exactly: bool = False, floats: bool = True
) -> None:
    """Equal, but for the last bits of floating-point numbers that were added in another order."""
    left, right = answers(one), answers(other)
    assert sorted(left, key=str) == sorted(right, key=str)
    for key, row in left.items():
        for name, value in row.items():
            if floats or not isinstance(value, float):
                assert _same(value, right[key][name], exactly), (
                    f"{name} of {key}: {value!r}, {right[key][name]!r}"
                )


def _same(one: Any, other: Any, exactly: bool) -> bool:
    if isinstance(one, float) and isinstance(other, float) and not exactly and math.isfinite(one):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return repr(one) == repr(other)


def parts_of(prepared: pa.Table, seed: int) -> list[pa.Table]:
    """The states of each batch, in random order."""
    batches = prepared["batch"].unique().to_pylist()
    random.Random(seed).shuffle(batches)
    kept = [name for name in prepared.column_names if name != "batch"]
    is_of = {batch: pc.equal(prepared["batch"], batch) for batch in batches}
    return [prepared.filter(is_of[batch]).select(kept) for batch in batches]
