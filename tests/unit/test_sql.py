"""SQL reads the views as they are served, and nothing else."""

from pathlib import Path

import pytest

from braid import all_time, tumbling
from braid.errors import BraidError
from braid.runtime.settings import Settings
from serving_layer.answer.sql import run
from tests.serving import MIDNIGHT, MINUTE, Tables, some_events, view_of


@pytest.fixture
def tables(home: Path) -> Tables:
    settings = Settings(home=str(home))
    tables = Tables(settings, view_of(tumbling("1 hour")))
    tables.deploy()
    tables.append(some_events(0, 60, MIDNIGHT))
    tables.publish(MIDNIGHT.date(), MIDNIGHT)
    tables.append(some_events(1, 30, MIDNIGHT + MINUTE))
    ever = Tables(settings, view_of(all_time(), name="ever"))
    ever.deploy()
    ever.append(tables.events)
    return tables


def ask(tables: Tables, text: str, **bounds: object) -> list[dict[str, object]]:
    return run(tables.settings, ["hits", "ever"], text, **bounds).to_pylist()  # type: ignore[arg-type]


def test_a_view_is_a_table_of_its_numbers(tables: Tables) -> None:
    found = ask(tables, "SELECT host, sum(hits) AS hits FROM hits GROUP BY host")
    by_hand: dict[str | None, int] = {}
    for event in tables.events:
        by_hand[event.host] = by_hand.get(event.host, 0) + 1
    assert {row["host"]: row["hits"] for row in found} == by_hand


def test_views_are_joined_and_numbers_compared_with_those_before(tables: Tables) -> None:
    joined = ask(
        tables,
        "SELECT e.host, e.hits, sum(h.hits) AS added FROM ever e "
        "JOIN hits h ON h.host IS NOT DISTINCT FROM e.host GROUP BY ALL",
    )
    assert joined
    assert all(row["hits"] == row["added"] for row in joined)
    windowed = ask(
        tables,
        "WITH hourly AS (SELECT window_start, sum(hits) AS hits FROM hits GROUP BY ALL) "
        "SELECT hits - lag(hits) OVER (ORDER BY window_start) AS more FROM hourly ORDER BY window_start",
    )
    assert windowed[0]["more"] is None


def test_only_windows_of_a_range_can_be_there(tables: Tables) -> None:
    (row,) = ask(tables, "SELECT count(*) AS n FROM hits", start=MIDNIGHT, end=MIDNIGHT + 60 * MINUTE)
    assert row["n"] == sum(known[1] == MIDNIGHT for known in tables.answer())
    assert ask(tables, "SELECT * FROM ever", start=MIDNIGHT)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled by configuration"),
        ("SELECT * FROM '/etc/passwd'", "does not exist"),
        ("COPY hits TO '/tmp/stolen.csv'", "can only be read"),
        ("CREATE TABLE mine AS SELECT 1", "can only be read"),
        ("DELETE FROM hits", "can only be read"),
        ("ATTACH '/tmp/other.db'", "can only be read"),
        ("INSTALL httpfs", "can only be read"),
        ("SET memory_limit = '1TB'", "can only be read"),
        ("SELECT 1; DROP TABLE hits", "one statement, not 2"),
        ("", "one statement, not 0"),
        ("SELEKT 1", "syntax error"),
        ("SELECT * FROM hitz", "The views are: ever, hits"),
        ("SELECT nothing FROM hits", "nothing"),
    ],
)
def test_nothing_else_is_read_and_nothing_is_written(tables: Tables, text: str, says: str) -> None:
    with pytest.raises(BraidError, match=says) as refused:
        ask(tables, text)
    assert "\n" not in str(refused.value)
