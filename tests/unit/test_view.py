"""A view is a value, checked when it is defined."""

import pickle
from typing import Any

import pytest

import braid
from braid import Lookup, Source, View, count, max_, mean, session, sum_, tumbling
from braid.errors import DefinitionError

SCHEMA = (
    "id string, time timestamp, host string, url string, status int, bytes bigint, ratio double, "
    "tags array<string>, last string, blob binary, count int"
)
requests = Source(name="requests", kafka_topic="requests", schema=SCHEMA, event_time="time", event_id="id")
users = Lookup(table="users.csv", on="host", columns={"country": "country", "group": "team"})


def make(**changes: Any) -> View:
    parts: dict[str, Any] = {
        "name": "traffic",
        "source": requests,
        "keys": ("url",),
        "measures": {"hits": count()},
    }
    return View(**(parts | changes))


def test_equal_views_are_one_value() -> None:
    one = make(measures={"hits": count(), "bytes": sum_("bytes")}, derive={"a": "lower(url)"}, enrich=users)
    two = make(
        measures={"bytes": sum_("bytes"), "hits": count()}, derive={"a": "lower(url)"}, enrich=(users,)
    )
    assert one == two
    assert len({one, two, pickle.loads(pickle.dumps(one))}) == 1
    assert one != make()


def test_a_view_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        make().mode = "kappa"  # type: ignore[misc]
    with pytest.raises(TypeError):
        make().measures["x"] = count()  # type: ignore[index]


def test_one_key_may_be_written_without_a_tuple() -> None:
    assert make(keys="url").keys == ("url",)


def test_a_view_without_keys_or_window_counts_everything() -> None:
    assert make(keys=()).window.kind == "all_time"


def test_derived_columns_may_use_looked_up_and_earlier_derived_ones() -> None:
    view = make(
        enrich=(users,),
        derive={"path": "split_part(url, '?', 1)", "place": "concat(path, country)"},
        where="place != '' and team = 'a' and STATUS < 400",
        keys=("place", "team"),
        measures={"n": count(), "average": mean("bytes")},
    )
    assert view.columns["place"] is None
    assert view.columns["status"] == "int"


def test_a_later_lookup_may_use_a_column_of_an_earlier_one() -> None:
    countries = Lookup(table="countries.csv", on="country", columns=("continent",))
    assert make(enrich=(users, countries), keys=("continent",)).keys == ("continent",)
    with pytest.raises(DefinitionError, match="'country' is not a column"):
        make(enrich=(countries, users))


def test_an_element_may_be_filtered_grouped_and_measured_and_made_of_derived_columns() -> None:
    view = make(
        derive={"words": "split(url, '/')"},
        each={"word": "words"},
        where="word <> ''",
        keys=("word",),
        measures={"n": count(), "longest": max_("word")},
    )
    assert view.columns["word"] is None
    assert view.each == {"word": "words"}


def test_the_types_of_derived_columns_are_left_to_spark() -> None:
    assert make(derive={"size": "cast(url as bigint)"}, measures={"total": sum_("size")}).measures


@pytest.mark.parametrize(
    ("changes", "value", "fix"),
    [
        ({"name": "Page Traffic"}, "'Page Traffic'", "such as 'page_traffic'"),
        ({"source": "requests"}, "'requests'", "the Source itself"),
        ({"window": "5 minutes"}, "'5 minutes'", "tumbling("),
        ({"window": None}, "None", "all_time()"),
        ({"mode": "kapa"}, "'kapa'", "Did you mean 'kappa'"),
        ({"keys": ("nope",)}, "'nope'", "The columns are: id, time, host, url, status"),
        ({"keys": ("URL",)}, "'URL'", "Did you mean 'url'"),
        ({"keys": ("url", "url")}, "('url', 'url')", "remove one"),
        ({"keys": 7}, "7", "a tuple of columns"),
        ({"keys": ("tags",)}, "array<string>", "derive a column"),
        ({"keys": ("ratio",)}, "double", "cast(ratio as decimal"),
        ({"keys": ("blob",)}, "binary", "hex(blob)"),
        ({"keys": ("last",)}, "'last'", "derive={'my_last'"),
        ({"keys": ("count",)}, "'count'", "derive={'my_count'"),
        ({"measures": {}}, "empty", "{'hits': count()}"),
        ({"measures": [count()]}, "[", "{'hits': count()}"),
        ({"measures": {"url": count()}}, "'url'", "rename the measure"),
        ({"measures": {"n": count(), "N": count()}}, "'N'", "rename the measure"),
        ({"measures": {"day": count()}}, "'day'", "rename the measure"),
        ({"measures": {"window_start": count()}}, "'window_start'", "rename the measure"),
        ({"measures": {"_n": count()}}, "'_n'", "rename the measure"),
        ({"measures": {"hits per page": count()}}, "'hits per page'", "letters, digits and '_'"),
        ({"measures": {"n": sum_("byts")}}, "'byts'", "Did you mean 'bytes'"),
        ({"measures": {"n": sum_("url")}}, "'url'", "string"),
        ({"measures": {"n": "count"}}, "'count'", "count("),
        ({"measures": {"n": count}}, "measure 'n'", "count("),
        ({"where": ""}, "''", "write an SQL expression"),
        ({"where": "status < 'x"}, "status < 'x", "close it"),
        ({"where": "stats < 400"}, "'stats'", "Did you mean 'status'"),
        ({"where": "time > now()"}, "now", "the event's own columns"),
        ({"derive": ["url"]}, "['url']", "mapping"),
        ({"derive": {"url": "lower(url)"}}, "'url'", "choose another name"),
        ({"derive": {"Host": "lower(url)"}}, "'host'", "choose another name"),
        ({"derive": {"pane": "lower(url)"}}, "'pane'", "choose another name"),
        ({"derive": {"a b": "lower(url)"}}, "'a b'", "letters, digits and '_'"),
        ({"derive": {"path": "lower(ur)"}}, "'ur'", "Did you mean 'url'"),
        ({"derive": {"path": "lower(url"}}, "lower(url", "balance"),
        ({"derive": {"a": "b || 'x'", "b": "url"}}, "'b' is not there yet", "move it before"),
        ({"derive": {"a": "rand()"}}, "rand", "the event's own columns"),
        ({"derive": {"country": "url"}, "enrich": users}, "'country'", "choose another name"),
        ({"derive": {"a": "explode(tags)"}}, "explode", "each={'element'"),
        ({"each": ["tags"]}, "['tags']", "{'tag': 'tags'}"),
        ({"each": {"a": "tags", "b": "tags"}}, "'a', 'b'", "arrays_zip"),
        ({"each": {"url": "tags"}}, "'url'", "choose another name"),
        ({"each": {"window_end": "tags"}}, "'window_end'", "choose another name"),
        ({"each": {"tag": "tgs"}}, "'tgs'", "Did you mean 'tags'"),
        ({"each": {"tag": "explode(tags)"}}, "explode", "each={'element'"),
        ({"each": {"tag": "shuffle(tags)"}}, "shuffle", "the event's own columns"),
        (
            {"each": {"tag": "tags"}, "derive": {"a": "lower(tag)"}},
            "'tag' is not there yet",
            "transform(tags",
        ),
        ({"enrich": "users.csv"}, "'users.csv'", "Lookup(...)"),
        ({"enrich": Lookup(table="t", on="nope", columns="x")}, "'nope'", "The columns are: id"),
        ({"enrich": Lookup(table="t", on="ratio", columns="x")}, "double", "cast(ratio"),
        ({"enrich": Lookup(table="t", on="host", columns="url")}, "'url'", "rename it with columns="),
        ({"enrich": Lookup(table="t", on="host", columns="epoch")}, "'epoch'", "rename it with columns="),
        ({"enrich": (users, users)}, "'country'", "rename it with columns="),
    ],
)
def test_a_view_that_cannot_work_is_refused_with_the_value_and_the_fix(
    changes: dict[str, Any], value: str, fix: str
) -> None:
    with pytest.raises(DefinitionError) as refusal:
        make(**changes)
    assert value in str(refusal.value)
    assert fix in str(refusal.value)


def test_a_measure_may_be_called_as_the_column_that_it_measures() -> None:
    assert make(measures={"bytes": sum_("bytes")}).measures


@pytest.mark.parametrize("window", [tumbling("1 hour"), session(gap="30 minutes")])
def test_every_kind_of_window_is_accepted(window: Any) -> None:
    assert make(window=window).window == window


def test_everything_that_a_definition_needs_is_exported_and_nothing_needs_spark() -> None:
    import subprocess
    import sys

    assert all(hasattr(braid, name) for name in braid.__all__)
    program = "import braid, sys; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
