"""A lookup is a value that says which columns of which table an event gets."""

from typing import Any

import pytest

from braid.define.lookup import Lookup
from braid.define.source import Source
from braid.define.view import View
from braid.define.windows import tumbling
from braid.errors import DefinitionError
from braid.measures import count

events = Source(
    name="events", kafka_topic="events", schema="time timestamp, host string, url string", event_time="time"
)
model = View(name="model", source=events, keys=("host", "url"), measures={"seen": count()})


def make(**changes: Any) -> Lookup:
    return Lookup(**({"table": "users.csv", "on": "host", "columns": ("country",)} | changes))


def test_one_name_and_a_tuple_of_one_are_the_same_value() -> None:
    assert make(on="host", columns="country") == make(on=("host",), columns=("country",))
    assert hash(make(on="host")) == hash(make(on=["host"]))


def test_columns_may_be_renamed() -> None:
    assert dict(make(columns={"country": "home"}).added) == {"country": "home"}
    assert dict(make(columns=("country",)).added) == {"country": "country"}


@pytest.mark.parametrize(
    ("table", "declared", "kind"),
    [
        ("a/users.csv", None, "csv"), ("A/Users.CSV.gz", None, "csv"), ("users.parquet/", None, "parquet"),
        ("s3a://bucket/users", None, "delta"), ("users.txt", "csv", "csv"), (model, None, "view"),
    ],
)  # fmt: skip
def test_the_format_follows_from_the_ending_unless_it_is_given(
    table: Any, declared: str | None, kind: str
) -> None:
    on, columns = (("host", "url"), ("seen",)) if table is model else ("host", ("country",))
    assert make(table=table, format=declared, on=on, columns=columns).kind == kind


def test_a_view_is_looked_up_by_its_keys_in_any_order() -> None:
    assert make(table=model, on=("url", "host"), columns={"seen": "seen_before"}).view is model


def test_a_view_with_windows_cannot_be_looked_up() -> None:
    hourly = View(
        name="hourly", source=events, keys="host", window=tumbling("1 hour"), measures={"n": count()}
    )
    with pytest.raises(DefinitionError, match=r"'hourly'.*many rows for a key.*window=all_time\(\)"):
        make(table=hourly, columns=("n",))


@pytest.mark.parametrize(
    ("changes", "value", "fix"),
    [
        ({"table": ""}, "''", "such as 'users.csv'"),
        ({"table": 7}, "7", "a .csv or .parquet file, or a View"),
        ({"on": ()}, "()", "one or more names"),
        ({"on": 3}, "3", "one or more names"),
        ({"on": ("host", "host")}, "('host', 'host')", "remove one"),
        ({"columns": ()}, "()", "one or more names"),
        ({"columns": {"country": ""}}, "('',)", "one or more names"),
        ({"columns": {"a": "x", "b": "x"}}, "('x', 'x')", "remove one"),
        ({"columns": ("host", "country")}, "'host'", "rename it with columns="),
        ({"format": "xml"}, "'xml'", "delta, csv, parquet"),
        ({"table": model, "on": "host", "columns": ("seen",)}, "('host', 'url')", "make them the same"),
        ({"table": model, "on": ("host", "url"), "columns": ("sen",)}, "'sen'", "Did you mean 'seen'"),
        (
            {"table": model, "on": ("host", "url"), "columns": ("seen",), "format": "csv"},
            "'csv'",
            "leave out",
        ),
    ],
)
def test_a_lookup_that_cannot_work_is_refused_with_the_value_and_the_fix(
    changes: dict[str, Any], value: str, fix: str
) -> None:
    with pytest.raises(DefinitionError) as refusal:
        make(**changes)
    assert value in str(refusal.value)
    assert fix in str(refusal.value)
