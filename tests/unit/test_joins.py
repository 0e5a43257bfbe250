"""A join is a value: what is wrong in it is named with the fix, and who needs it finds its inputs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from braid import Join, Source, View, count
from braid.define.codec import decode, encode
from braid.define.derived.base import with_inputs
from braid.define.loading import load_definitions
from braid.errors import BraidError, DefinitionError
from braid.log.derived import Derivation, DerivedPlaces, refuse_other_definition
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.commits import Position

shown = Source(
    name="shown", kafka_topic="shown", event_time="at", event_id="id", timezone="Europe/Paris", max_ahead="1 hour",
    schema="id string, at timestamp, ad string, n int, share double, cost decimal(10,4)",
)  # fmt: skip
clicks = Source(
    name="clicks", kafka_topic="clicks", schema="id string, time timestamp, ad string, n bigint, share double",
    event_time="time", event_id="id", not_before="2020-01-01",
)  # fmt: skip
GIVEN: dict[str, Any] = {
    "name": "clicked", "left": shown, "right": clicks, "on": "ad", "within": ("0 minutes", "90 minutes"),
    "columns": {"cost": "left.cost", "after": "cast(timestampdiff(second, left.at, right.time) as bigint)"},
}  # fmt: skip
clicked = Join(**GIVEN)


def test_a_join_is_a_source_with_the_zone_and_the_limits_of_the_side_that_gives_it_its_time() -> None:
    assert isinstance(clicked, Source)
    assert dict(clicked.columns) == {
        "id": "string",
        "time": "timestamp",
        "cost": "decimal(10,4)",
        "after": "bigint",
    }
    assert (clicked.event_time, clicked.event_id, clicked.timezone) == ("time", "id", "UTC")
    assert clicked.not_before == "2020-01-01"
    assert (clicked.kafka_topic, clicked.files) == (None, None)
    by_left = Join(**GIVEN | {"time": "left"})
    assert (by_left.timezone, by_left.max_ahead) == ("Europe/Paris", "1 hour")
    assert clicked.used("left") == ("at", "ad", "cost")
    assert clicked.used("right") == ("time", "ad")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"on": "adv"}, "on: source 'shown' has no column 'adv'. Did you mean 'ad'?"),
        ({"on": {"ad": "n"}}, "'ad' is string in source 'shown', and 'n' is bigint in source 'clicks': declare both"),
        ({"on": "n"}, "'n' is int in source 'shown', and 'n' is bigint in source 'clicks'"),
        ({"on": "share"}, "on: 'share' is of type double, and two floating-point numbers are seldom equal: join on"),
        ({"on": ()}, "on is (): write a column that both have"),
        ({"within": "30 minutes"}, "within is '30 minutes': write the least and the most"),
        ({"within": ("0 minutes", None)}, "within: None is not a length of time"),
        ({"within": ("-5 minutes", "1 hour")}, "'-5 minutes' is not a length of time"),
        ({"within": ("2 hours", "1 hour")}, "the first must not be longer than the second"),
        ({"within": ("0 hours", "400 days")}, "nor the second than 366 days"),
        ({"how": "left"}, "how is 'left': only 'inner' is possible, because an event of Braid is never taken back"),
        ({"time": "both"}, "time is 'both': write 'left' or 'right'"),
        ({"left": "shown"}, "left is 'shown': give it the Source itself"),
        ({"right": shown}, "left and right are both 'shown'"),
        ({"lateness": "soon"}, "lateness: 'soon' is not a length of time"),
        ({"columns": {"c": "left.costs"}}, "source 'shown' has no column 'costs'. Did you mean 'cost'?"),
        ({"columns": {"c": "cost"}}, "say whose 'cost': 'left.cost'"),
        ({"columns": {"c": "right.n + 1"}}, "write it as 'cast(right.n + 1 as bigint)'"),
        ({"columns": {"c": "cast(right.n as int) + cast(1 as int)"}}, "only Spark knows its type"),
        ({"columns": {"c": "cast(right.n as integr)"}}, "'integr' is not a type that Braid knows"),
        ({"columns": {"c": "cast(rand() as double)"}}, "rand gives another value each time"),
        ({"columns": {"id": "left.id"}}, "column 'id' is what every pair has by itself"),
        ({"columns": {"day": "left.id"}}, "column 'day' is reserved"),
        ({"columns": 3}, "columns is 3: write a mapping"),
        ({"rules": {"r": "costs > 1"}}, "there is no column 'costs'"),
        ({"name": "A b"}, "'A b' cannot be the name of a source"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_join_is_named_with_the_fix(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        Join(**GIVEN | wrong)
    assert says in str(refused.value)


def test_keys_may_have_other_names_on_the_other_side_and_there_may_be_several() -> None:
    assert dict(Join(**GIVEN | {"on": {"ad": "id"}}).on) == {"ad": "id"}
    assert dict(Join(**GIVEN | {"on": ("ad", "id")}).on) == {"ad": "ad", "id": "id"}


def test_the_identity_changes_with_what_a_join_computes_and_not_with_how_it_is_written_or_how_long_it_waits() -> (
    None
):
    same = [{"lateness": "1 hour"}, {"within": ("0 seconds", "90 min")}, {"rules": {"r": "cost > 0"}}]
    same.append({"columns": {**GIVEN["columns"], "cost": "left . cost"}})
    assert {Join(**GIVEN | change).identity for change in same} == {clicked.identity}
    others = [{"on": "id"}, {"within": ("0 minutes", "91 minutes")}, {"time": "left"}, {"columns": {}}]
    assert clicked.identity not in {Join(**GIVEN | change).identity for change in others}


def test_a_view_of_a_join_is_stored_and_read_again_as_it_was() -> None:
    view = View(name="v", source=clicked, keys=("after",), measures={"n": count()})
    assert decode(encode(view)) == view
    assert replace(clicked, left=replace(shown, kafka_topic="other")).schema == clicked.schema


def test_the_inputs_of_a_join_are_found_through_the_views_that_need_it_and_before_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from braid import View, count\nfrom braid.examples.clicks import clicked\n"
        'clicks_in_all = View(name="clicks_in_all", source=clicked, measures={"n": count()})\ndel clicked\n'
    )
    assert list(load_definitions(str(file)).sources) == ["impressions", "clicks", "clicked"]
    twice = Join(**GIVEN | {"name": "twice", "left": clicked, "on": {"id": "id"}, "columns": {}})
    assert [source.name for source in with_inputs([twice, clicks])] == ["shown", "clicks", "clicked", "twice"]


def test_a_join_that_was_changed_is_refused_where_its_log_holds_what_it_was(tmp_path: Path) -> None:
    places = DerivedPlaces(Log(clicked, Settings(home=str(tmp_path))))
    said = Derivation(clicked.identity, "q", 3, {"shown": Position(7), "clicks": Position(4, 2, True)}, 10, 1)
    places.keep_derivation(said)
    assert places.derivation() == said
    assert said.versions == {"shown": 6, "clicks": -1}
    refuse_other_definition(clicked, said)
    with pytest.raises(BraidError, match="Give the changed one another name, such as 'clicked_2'"):
        refuse_other_definition(Join(**GIVEN | {"on": "id"}), said)


def test_a_file_of_events_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    places = DerivedPlaces(Log(clicked, Settings(home=str(tmp_path))))

    def broken() -> Any:
        yield "one"
        raise RuntimeError("the second one never comes")

    with pytest.raises(RuntimeError):
        places.put("q-0", broken())
    assert places.put("q-1", []) == 0
    assert not [file for file in Path(places.events).glob("*") if file.is_file()]
    assert [places.put("q-2", ["one", "two"]) for _ in range(2)] == [2, 2]
    assert (Path(places.events) / "q-2.jsonl").read_text() == "one\ntwo\n"
