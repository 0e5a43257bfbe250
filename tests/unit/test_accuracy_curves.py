"""How soon windows are whole, how late events are, and what other ways would lose: against a naive recount."""

import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from braid import Source, View, all_time, count, session, sliding, tumbling
from braid.define.durations import length, percent, rounded_up
from braid.define.windows import Fixed, Session, Window
from braid.states.calendar import local_day, windows_of
from braid.tables.commits import Commit, Position, TailCommit
from braid.tables.delta_rs import pin
from serving_layer.accuracy.lateness.curves import AFTER, completeness, lateness, what_if
from serving_layer.accuracy.lateness.event_times import (
    Brought,
    Span,
    event_times,
    is_between,
    narrow_columns,
)
from serving_layer.accuracy.lateness.reading import served_when

SOURCE = Source(
    name="requests", kafka_topic="requests", schema="id string, time timestamp, host string, revised timestamp",
    event_time="time", event_id="id", timezone="America/New_York",
)  # fmt: skip
# The night in which the clock goes forward: its day has 23 hours.
START = datetime(2024, 3, 10, 2, tzinfo=UTC)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
FAR = START + timedelta(days=30)
INSTANT = pa.timestamp("us", "UTC")


def view_of(window: Window) -> View:
    return View(
        name="traffic", source=SOURCE, keys=("host",), window=window, measures={"hits": count()},
        lateness="10 minutes",
    )  # fmt: skip


def row(number: int, time: datetime, arrival: datetime, **more: Any) -> dict[str, Any]:
    return {
        "id": f"e{number}", "time": time, "host": "a", "day": local_day(time, SOURCE.zone), "_partition": 0,
        "_offset": number, "_arrival": arrival, "_epoch": arrival.replace(second=0, microsecond=0), "_error": None,
    } | more  # fmt: skip


def some(seed: int, number: int = 400, arrives: timedelta = timedelta(0)) -> list[dict[str, Any]]:
    """Events of two days, each a little late and some very: in the order in which they came."""
    draw = random.Random(seed)
    made = []
    for _ in range(number):
        time = START + timedelta(seconds=draw.randrange(40 * 3600), microseconds=draw.randrange(10**6))
        late = timedelta(seconds=draw.choice([0.2, 5, 50, 700, 4_000, 90_000]) * draw.random())
        made.append(
            (time + late + arrives - timedelta(seconds=draw.random() < 0.05), time, draw.choice("ab"))
        )
    made.sort()
    return [row(n, time, arrival, host=host) for n, (arrival, time, host) in enumerate(made)]


def dataset(rows: Sequence[dict[str, Any]]) -> Any:
    times = dict.fromkeys(("time", "revised", "_arrival", "_epoch"), INSTANT)
    schema = pa.schema(
        {"id": pa.string(), "host": pa.string(), "day": pa.date32(), "_partition": pa.int64(), "_offset": pa.int64()}
        | {"_error": pa.string()} | times
    )  # fmt: skip
    return ds.dataset(pa.Table.from_pylist(list(rows), schema))


def asked(
    view: View, rows: Sequence[dict[str, Any]], span: Span | None = None, arrival: str | None = None
) -> Any:
    return event_times(view, dataset(rows), span or Span(FAR + timedelta(days=999)), MINUTE, arrival)


def ends_by_hand(window: Window, rows: Sequence[dict[str, Any]]) -> list[datetime]:
    if isinstance(window, Fixed):
        return [min(end for _, end in windows_of(one["time"], window, SOURCE.zone)) for one in rows]
    if not isinstance(window, Session):
        return [one["time"] for one in rows]
    found = {}
    for host in {one["host"] for one in rows}:
        island: list[int] = []
        for i in sorted(
            (i for i, one in enumerate(rows) if one["host"] == host), key=lambda i: rows[i]["time"]
        ):
            if island and rows[i]["time"] - rows[island[-1]]["time"] > window.gap:
                island = []
            island.append(i)
            found |= dict.fromkeys(island, rows[i]["time"] + window.gap)
    return [found[i] for i in range(len(rows))]


WINDOWS = [
    tumbling("1 minute"), tumbling("1 hour"), tumbling("1 day"), sliding("5 minutes", every="1 minute"),
    sliding("2 hours", every="20 minutes"), session(gap="30 minutes"), all_time(),
]  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: window.describe()[:24])
def test_completeness_and_what_would_be_dropped_equal_a_recount_by_hand(window: Window) -> None:
    rows = some(1)
    view = view_of(window)
    ends = ends_by_hand(window, rows)
    with asked(view, rows) as known:
        assert known.clock == "arrival"
        found, late, others = completeness(known), lateness(known, view.patience), what_if(known)
    for after, point in zip(AFTER, found.all.points, strict=True):
        there = [one["_arrival"] <= end + after * SECOND for one, end in zip(rows, ends, strict=True)]
        assert point.share == pytest.approx(sum(there) / len(rows))
    seen, dropped, groups = None, 0, defaultdict(int)
    for one, end in zip(rows, ends, strict=True):
        is_dropped = seen is not None and end <= seen - 10 * MINUTE
        dropped += is_dropped
        groups[end, one["host"]] += is_dropped
        seen = max(seen or one["time"], one["time"])
    assert others.watermark.lost == late.late_events == dropped
    assert (others.watermark.groups, others.watermark.wrong_groups) == (
        len(groups),
        sum(map(bool, groups.values())),
    )
    assert sum(bar.came for bar in late.bars) == sum(bar.behind for bar in late.bars) == len(rows)


def test_classic_lambda_loses_what_crosses_midnight_and_counts_twice_what_is_ahead_of_it() -> None:
    midnight = datetime(2024, 3, 11, 4, tzinfo=UTC)  # of New York, after the change of the clock
    rows = [
        row(0, midnight - MINUTE, midnight - MINUTE),
        row(1, midnight - MINUTE, midnight + SECOND),
        row(2, midnight + SECOND, midnight - SECOND),
        row(3, midnight + MINUTE, midnight + MINUTE),
    ]
    with asked(view_of(tumbling("1 minute")), rows) as known:
        found = what_if(known).classic_lambda
    assert (found.events, found.lost, found.twice, found.wrong_groups) == (4, 1, 1, 2)
    assert found.largest_error == 1.0


def test_an_event_has_a_row_for_each_of_its_elements_and_its_copy_has_none() -> None:
    """What a view repeats is at one place; a copy is at another."""
    elements = [row(0, START, START, host=host) for host in ("a", "b", "b")]
    copies = [one | {"_offset": 7} for one in elements]
    with asked(view_of(tumbling("1 minute")), [*elements, *copies]) as found:
        assert found.events == 3


def test_a_copy_of_an_event_says_nothing_about_lateness() -> None:
    rows = [row(0, START, START), row(1, START, START + 60 * MINUTE, id="e0"), row(2, START, START, id=None)]
    with asked(view_of(tumbling("1 minute")), rows) as known:
        assert known.events == 2
        assert completeness(known).all.at(60) == 1


def test_rejected_records_and_what_is_beyond_the_cut_are_left_out() -> None:
    rows = [
        row(0, START, START),
        row(1, START, START, _error="unparsable"),
        row(2, START, START + 9 * MINUTE),
    ]
    with asked(view_of(tumbling("1 minute")), rows, Span(START + 5 * MINUTE)) as known:
        assert known.events == 1


def test_days_and_the_largest_keys_have_curves_of_their_own() -> None:
    rows = some(3)
    with asked(view_of(tumbling("1 hour")), rows) as known:
        found = completeness(known)
    assert [curve.name for curve in found.days] == sorted({str(one["day"]) for one in rows})
    assert sum(curve.events for curve in found.days) == sum(curve.events for curve in found.keys) == len(rows)
    assert [curve.events for curve in found.keys] == sorted((c.events for c in found.keys), reverse=True)


def test_a_range_of_days_is_judged_by_a_watermark_that_has_seen_the_days_after_it() -> None:
    rows = some(4)
    first = min(one["day"] for one in rows)
    view = view_of(tumbling("1 minute"))
    with asked(view, rows) as known:
        (everything,) = known.row(
            f"SELECT count(*) FROM event_times WHERE day = DATE '{first}' AND ends <= seen - 600000000"
        )
    with asked(view, rows, Span(FAR, first, first)) as known:
        assert what_if(known).watermark.lost == everything > 0


def test_what_was_served_goes_by_the_commit_that_brought_it_and_else_by_the_end_of_its_epoch() -> None:
    rows = [row(n, START + n * SECOND, START + n * SECOND) for n in range(4)] + [
        row(9, START, START, _partition=7)
    ]
    end = START + MINUTE
    brought = [
        Brought(0, 2, _micros(START + 2 * SECOND)),
        Brought(0, 4, _micros(end + 5 * SECOND)),
        Brought(0, 90, _micros(end + 900 * SECOND)),
    ]
    view = view_of(tumbling("1 minute"))
    with event_times(view, dataset(rows), Span(FAR), 2 * MINUTE, None, brought) as known:
        found = {point.after_seconds: point.served for point in completeness(known).all.points}
    assert [found[after] for after in (0, 1, 10, 60, 600)] == [0.4, 0.4, 0.8, 1.0, 1.0]


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def test_history_that_was_imported_is_judged_by_the_clock_of_its_events() -> None:
    rows = some(5, arrives=timedelta(days=20))
    with asked(view_of(tumbling("1 minute")), rows) as known:
        found, late = completeness(known), lateness(known, 10 * MINUTE)
    assert found.clock == "event time"
    assert late.median_seconds == late.behind_median_seconds
    assert 0 < found.all.at(0) < found.all.at(3_600) <= 1
    assert {point.served for point in found.all.points} == {None}


def test_imported_history_can_name_the_column_that_says_when_it_came() -> None:
    rows = [one | {"revised": one["time"] + 25 * 60 * MINUTE} for one in some(6, arrives=timedelta(days=20))]
    with asked(view_of(tumbling("1 minute")), rows, arrival="revised") as known:
        assert known.clock == "column"
        assert lateness(known, MINUTE).median_seconds == 25 * 3_600
        # In the order of that column nothing is behind anything.
        assert what_if(known).watermark.lost == 0
    assert narrow_columns(view_of(all_time()), "revised")[:4] == ["time", "host", "id", "revised"]


def test_the_recommended_watermark_keeps_what_it_says_and_the_usual_one_is_counted() -> None:
    on_time = [row(n, START + n * SECOND, START + n * SECOND) for n in range(3_000)]
    late = [row(3_000 + n, START + n * MINUTE, START + 51 * MINUTE) for n in range(6)]
    with asked(view_of(tumbling("1 minute")), on_time + late) as known:
        advice = what_if(known).advice
    assert advice == (
        "A watermark of 46 minutes would have kept 99.9 %; the usual 10 minutes would have dropped 6 events (0.2 %)."
    )


def test_nothing_to_judge_is_no_error() -> None:
    with asked(view_of(tumbling("1 hour")), []) as known:
        assert completeness(known).all.events == 0
        assert lateness(known, MINUTE).median_seconds is None
        assert what_if(known).advice == "There are no events to judge."


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 seconds"), (1, "1 second"), (90, "1.5 minutes"), (86_400, "1 day"), (0.25, "0.25 seconds")],
)
def test_lengths_are_said_in_the_largest_unit(seconds: float, text: str) -> None:
    assert length(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"), [(1, "100 %"), (0, "0 %"), (0.99999, "99.999 %"), (0.0013, "0.1 %")]
)
def test_a_share_is_never_rounded_to_all_or_nothing(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("seconds", "minutes"), [(-0.000001, 0), (0, 1 / 60), (61, 2), (3_700, 120), (200_000, 3 * 1440)]
)
def test_a_watermark_is_rounded_up_to_what_a_person_would_write(seconds: float, minutes: float) -> None:
    assert rounded_up(int(seconds * 1_000_000)) == timedelta(minutes=minutes)


def test_both_ends_of_a_range_of_days_are_in_it() -> None:
    ends = date(2024, 3, 9), date(2024, 3, 10)
    assert [is_between(date(2024, 3, day), *ends) for day in (8, 9, 10, 11)] == [False, True, True, False]
    assert is_between(date(1995, 7, 1), None, None)


def test_a_commit_of_the_log_is_served_when_the_tail_has_read_it(tmp_path: Path) -> None:
    log, tail = tmp_path / "log", tmp_path / "tail"
    for number, end in enumerate([10, 20, 20, 35]):
        commit = Commit("ingest", number, START, START, beat=number == 2, end={"0": end})
        append(log, commit.to_json())
    for number, version in enumerate([1, 3]):
        append(tail, TailCommit("q", number, Position(version)).to_json())
    append(tail, TailCommit("q", 1, Position(3), fold=True).to_json())
    tables = [pin(DeltaTable(str(place))) for place in (log, tail)]
    found = served_when(*tables)
    # The last commit of the log has not been read.
    assert [(one.partition, one.before) for one in found] == [(0, 20), (0, 10)]
    first, second = (DeltaTable(str(tail)).history()[-n]["timestamp"] * 1_000 for n in (1, 2))
    assert [one.micros for one in found] == [second, first]
    assert served_when(tables[0], None) == []


def append(table: Path, said: str) -> None:
    rows = pa.table({"n": pa.array([1])})
    metadata = CommitProperties(custom_metadata={"userMetadata": said})
    write_deltalake(str(table), rows, mode="append", commit_properties=metadata)
