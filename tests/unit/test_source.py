"""A source is a value, checked when it is defined."""

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from braid.define.source import Source
from braid.errors import DefinitionError


def make(**changes: Any) -> Source:
    parts: dict[str, Any] = {
        "name": "requests", "kafka_topic": "requests", "event_time": "time", "event_id": "id",
        "schema": "id string, time timestamp, status int, tags array<string>",
    }  # fmt: skip
    return Source(**(parts | changes))


def test_the_columns_are_the_schemas_in_its_order() -> None:
    assert dict(make().columns) == {
        "id": "string",
        "time": "timestamp",
        "status": "int",
        "tags": "array<string>",
    }
    assert list(make().columns) == ["id", "time", "status", "tags"]


def test_equal_sources_are_one_value() -> None:
    one = make(rules={"a": "status > 1", "b": "status < 9"}, dedup_horizon="60 minutes")
    two = make(rules={"b": "status < 9", "a": "status > 1"}, dedup_horizon="1 hour")
    assert one == two
    assert len({one, two, pickle.loads(pickle.dumps(one))}) == 1
    assert one != make()


def test_a_source_cannot_be_changed() -> None:
    rules = {"a": "status > 1"}
    source = make(rules=rules)
    rules["b"] = "status < 9"
    assert dict(source.rules) == {"a": "status > 1"}
    with pytest.raises(AttributeError):
        source.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        source.rules["b"] = "x"  # type: ignore[index]


def test_lengths_of_time_are_read_and_written_one_way() -> None:
    source = make(dedup_horizon="90 minutes", max_ahead="0 seconds")
    assert (source.dedup_horizon, source.horizon) == ("90 minutes", timedelta(minutes=90))
    assert source.ahead == timedelta(0)


def test_the_earliest_time_is_in_the_sources_zone_unless_it_says_another() -> None:
    berlin = make(timezone="Europe/Berlin", not_before="2020-01-01")
    assert berlin.earliest == datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    assert make(timezone="Europe/Berlin", not_before="2020-01-01T00:00Z").earliest == datetime(
        2020, 1, 1, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "time_format",
    ["epoch_seconds", "epoch_millis", "yyyy-MM-dd'T'HH:mm:ss[.SSS]XXX", "dd/MMM/yyyy:HH:mm:ss Z"],
)
def test_times_may_be_numbers_or_a_pattern(time_format: str) -> None:
    assert make(time_format=time_format).time_format == time_format


@pytest.mark.parametrize(
    ("changes", "value", "fix"),
    [
        ({"name": "My Requests"}, "'My Requests'", "such as 'my_requests'"),
        ({"name": "../x"}, "'../x'", "lower-case letters"),
        ({"name": 7}, "7", "lower-case letters"),
        ({"kafka_topic": None}, "None", "set exactly one"),
        ({"files": "drop/*.json"}, "'drop/*.json'", "set exactly one"),
        ({"kafka_topic": None, "files": " "}, "' '", "such as 'drop/*.jsonl'"),
        ({"kafka_topic": "a b"}, "'a b'", "1 to 249 letters"),
        ({"kafka_topic": ".."}, "'..'", "1 to 249 letters"),
        ({"schema": ""}, "''", "id string, time timestamp"),
        ({"schema": None}, "None", "id string, time timestamp"),
        ({"schema": "id strng, time timestamp"}, "'strng'", "use one of"),
        ({"schema": "id string, ID int, time timestamp"}, "'ID'", "rename or remove"),
        ({"schema": "id string, Day date, time timestamp"}, "'Day'", "choose another name"),
        ({"schema": "id string, _x date, time timestamp"}, "'_x'", "choose another name"),
        ({"schema": "id string, `a b` date, time timestamp"}, "'a b'", "letters, digits and '_'"),
        ({"schema": "id string, `a.b` date, time timestamp"}, "'a.b'", "letters, digits and '_'"),
        ({"event_time": "tme"}, "'tme'", "Did you mean 'time'? The columns are: id, time, status, tags"),
        ({"event_time": "status"}, "int", "declare it as 'status timestamp'"),
        ({"event_id": "uid"}, "'uid'", "The columns are: id, time, status, tags"),
        ({"event_id": "tags"}, "array<string>", "one value"),
        ({"timezone": "Berlin"}, "'Berlin'", "'Europe/Berlin'"),
        ({"timezone": "Amerika/New_York"}, "'Amerika/New_York'", "'America/New_York'"),
        ({"timezone": "qqq"}, "'qqq'", "IANA"),
        ({"timezone": "../UTC"}, "'../UTC'", "Did you mean"),
        ({"timezone": None}, "None", "IANA"),
        ({"timezone": "posix/UTC"}, "'posix/UTC'", "Did you mean"),
        ({"format": "cvs"}, "'cvs'", "Did you mean 'csv'"),
        ({"format": "csv"}, "array<string>", "format='json'"),
        ({"delimiter": "||"}, "'||'", "one character"),
        ({"rules": ["status > 1"]}, "['status > 1']", "mapping"),
        ({"rules": {"": "status > 1"}}, "''", "status is an HTTP code"),
        ({"rules": {"ok": ""}}, "''", "write an SQL expression"),
        ({"rules": {"ok": "status > (1"}}, "status > (1", "balance"),
        ({"rules": {"ok": "id = 'x"}}, "id = 'x", "close it"),
        ({"rules": {"ok": "stat > 1"}}, "'stat'", "Did you mean 'status'"),
        ({"dedup_horizon": "soon"}, "'soon'", "'30 seconds'"),
        ({"dedup_horizon": "0 s"}, "0 seconds", "at least 1 second"),
        ({"max_ahead": "-1 day"}, "'-1 day'", "whole number and a unit"),
        ({"not_before": "yesterday"}, "'yesterday'", "1995-07-01"),
        ({"time_format": "%Y-%m-%d"}, "'%Y-%m-%d'", "a Spark pattern"),
        ({"time_format": "epoch"}, "'epoch'", "epoch_seconds"),
        ({"time_format": ""}, "''", "yyyy-MM-dd"),
    ],
)
def test_a_source_that_cannot_work_is_refused_with_the_value_and_the_fix(
    changes: dict[str, Any], value: str, fix: str
) -> None:
    with pytest.raises(DefinitionError) as refusal:
        make(**changes)
    assert value in str(refusal.value)
    assert fix in str(refusal.value)
