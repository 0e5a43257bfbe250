"""One merge, twice: over Arrow for the API and over DataFrames for Spark users, and every event once in both."""

from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import braid
from braid import all_time, count, quantile, session, sliding, tumbling
from braid.define.windows import Window
from braid.deploy.store import changing
from braid.deploy.versions import promoted, replayed, rolled_back
from braid.runtime.settings import Settings
from braid.states import arrow
from serving_layer.answer.answers import ask
from serving_layer.answer.numbers import KNOWN, STATUS
from serving_layer.answer.reader import FromTables, active_version
from serving_layer.answer.request import Request
from tests.serving import INSTANT, MIDNIGHT, Tables, filled, some_events, view_of

Reader = Callable[[Settings, str | None], dict[Any, dict[str, Any]]]

WINDOWS = {
    "1 minute": tumbling("1 minute"),
    "3 hours every hour": sliding("3 hours", every="1 hour"),
    "2 days": tumbling("2 days"),
    "session": session(gap="30 minutes"),
    "all time": all_time(),
}


@pytest.fixture(params=["arrow", "spark"])
def read(request: pytest.FixtureRequest) -> Reader:
    """(host, window) -> its numbers, as one of the two gives them."""
    if request.param == "arrow":
        return from_arrow
    spark = request.getfixturevalue("spark")
    return lambda settings, grain: from_spark(spark, settings, grain)


def from_arrow(settings: Settings, grain: str | None) -> dict[Any, dict[str, Any]]:
    given = ask(FromTables(settings, active_version(settings, "hits")), Request(grain=grain))
    return by_window(given.rows.drop_columns([STATUS, *KNOWN]).to_pylist())


def from_spark(spark: Any, settings: Settings, grain: str | None) -> dict[Any, dict[str, Any]]:
    frame = braid.merged(spark, "hits", grain, settings)
    rows = [row.asDict() for row in frame.collect()]
    # Spark gives times of its session's zone, which is UTC here, and says nothing of it.
    return by_window(
        [{k: v.replace(tzinfo=UTC) if k.startswith("window_") else v for k, v in row.items()} for row in rows]
    )


def by_window(rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    known_by = ("host", "window_start", "window_end")
    found = {
        tuple(row[name] for name in known_by if name in row): {
            k: v for k, v in row.items() if k not in known_by
        }
        for row in rows
    }
    assert len(found) == len(rows), "a window was presented twice"
    return found


def by_hand(tables: Tables, window: Window | None = None) -> dict[Any, dict[str, Any]]:
    return {
        known: {name: value for name, value in row.items() if name != STATUS}
        for known, row in tables.answer(window).items()
    }


@pytest.mark.parametrize("collected", [False, True], ids=["covered rows in the tail", "collected"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_every_event_counts_once(read: Reader, home: Path, window: Window, collected: bool) -> None:
    tables = filled(Settings(home=str(home)), window, collected)
    assert read(tables.settings, None) == by_hand(tables)


@pytest.mark.parametrize("grain", ["1 hour", "1 day"])
def test_a_grain_rolls_panes_up(read: Reader, home: Path, grain: str) -> None:
    tables = filled(Settings(home=str(home)), tumbling("1 minute"))
    assert read(tables.settings, grain) == by_hand(tables, tumbling(grain))


def test_the_active_version_is_read(read: Reader, home: Path) -> None:
    tables = filled(Settings(home=str(home)), tumbling("1 hour"))
    other = Tables(tables.settings, view_of(tumbling("1 hour"), where="n > 0"), number=2)
    other.deploy()
    other.append(some_events(7, 30, MIDNIGHT))
    other.publish(MIDNIGHT.date(), MIDNIGHT)
    with changing(tables.settings, "hits") as draft:
        draft.value = promoted(replayed(draft.value, 2, MIDNIGHT), 2, MIDNIGHT)
    assert read(tables.settings, None) == by_hand(other)
    with changing(tables.settings, "hits") as draft:
        draft.value = rolled_back(draft.value, MIDNIGHT)
    assert read(tables.settings, None) == by_hand(tables)


def test_a_state_that_is_alone_is_presented_as_a_merged_one() -> None:
    """What Spark stores of a histogram is in any order; only a merge puts it in order."""
    view = view_of(tumbling("1 minute"), measures={"p90": quantile("n", 0.9), "hits": count()})
    bucketed = view.measures["p90"]
    entries = [(30, 1), (-7, 1), (2, 3)]
    columns = {
        "day": pa.array([MIDNIGHT.date()], pa.date32()),
        "pane": pa.array([MIDNIGHT], INSTANT),
        "host": pa.array(["a"]),
        bucketed.state_name: pa.array([entries], pa.map_(pa.int32(), pa.int64())),
        "count": pa.array([5], pa.int64()),
    }
    alone = pa.table(columns)
    assert arrow.present(view, alone).to_pylist() == arrow.present(view, arrow.merge(view, alone)).to_pylist()
    ordered = alone.set_column(
        3, bucketed.state_name, [pa.array([sorted(entries)], pa.map_(pa.int32(), pa.int64()))]
    )
    assert arrow.present(view, alone).to_pylist() == arrow.present(view, ordered).to_pylist()
