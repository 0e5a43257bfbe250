"""A view survives being written down, whatever it is made of."""

import inspect
import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

import braid
from braid import Lookup, Source, View, all_time, count, mean, quantile, session, sliding, sum_, tumbling
from braid.define.codec import braid_version, decode, encode
from braid.define.fingerprint import fingerprint, state_fingerprint
from braid.errors import BraidError, DefinitionError
from braid.examples import weblog
from braid.measures import Measure
from braid.measures.aggregates import Count

ARGUMENTS = {"column": "bytes", "q": 0.99}
SCHEMA = "id string, time timestamp, host string, url string, status int, bytes bigint"
plain = Source(name="requests", kafka_topic="requests", schema=SCHEMA, event_time="time")
full = Source(
    name="files", files="drop/*.csv", format="csv", schema=SCHEMA, event_time="time", event_id="id",
    timezone="Europe/Berlin", rules={"z": "status > 0", "a": "bytes >= 0"}, keep_unknown=True,
    dedup_horizon="2 hours", time_format="yyyy-MM-dd HH:mm:ss", not_before="1995-07-01", max_ahead="0 seconds",
    delimiter=";",
)  # fmt: skip
known = View(name="known", source=full, keys="host", measures={"seen": count()}, where="status < 400")
everything = View(
    name="everything",
    source=full,
    enrich=(
        Lookup(table="users.csv", on=("host", "url"), columns={"country": "land"}, format="csv"),
        Lookup(table=known, on="host", columns=("seen",)),
    ),
    derive={"z": "lower(url)", "a": "z || land"},
    each={"part": "split(a, '/')"},
    where="seen > 1 -- known ones\n and a != 'ü'",
    keys=("a", "status"),
    window=sliding("5 minutes", every="1 minute"),
    measures={"z": count(), "p": quantile("bytes", 1), "b": sum_("bytes")},
    mode="kappa",
    lateness="90 seconds",
)


def stored(view: View) -> View:
    return decode(json.loads(json.dumps(encode(view), sort_keys=True)))


def measures() -> list[Measure]:
    """What every function of `braid` that makes a measure makes, with each set of arguments that it takes."""
    made: list[Measure] = []
    for name in braid.__all__:
        factory = getattr(braid, name)
        if not inspect.isfunction(factory) or factory.__annotations__.get("return") is not Measure:
            continue
        needed = inspect.signature(factory).parameters.values()
        made.append(factory(**{p.name: ARGUMENTS[p.name] for p in needed}))
        made += [factory()] if all(p.default is not p.empty for p in needed) else []
    return made


@pytest.mark.parametrize(
    "view",
    [
        everything,
        known,
        weblog.page_traffic,
        weblog.visits,
        weblog.daily_pages,
        *(
            replace(known, window=window)
            for window in (tumbling("7 days"), session("1500 ms"), all_time(), tumbling("1 second"))
        ),
    ],
    ids=lambda view: view.name,
)
def test_a_view_that_is_written_down_comes_back_as_it_was(view: View) -> None:
    back = stored(view)
    assert back == view
    assert repr(back) == repr(view), "the order of derived columns and measures is kept too"
    assert (fingerprint(back), state_fingerprint(back)) == (fingerprint(view), state_fingerprint(view))


@pytest.mark.parametrize("measure", measures(), ids=repr)
def test_every_measure_can_be_written_down(measure: Measure) -> None:
    view = View(name="one", source=plain, measures={"m": measure})
    assert stored(view) == view


def test_every_measure_is_among_the_tested_ones() -> None:
    concrete = {kind for kind in subclasses(Measure) if not inspect.isabstract(kind)}
    ours = {kind for kind in concrete if kind.__module__.startswith("braid.") and hasattr(kind, "kind")}
    assert {type(measure) for measure in measures()} == ours
    assert len(ours) >= 8


def subclasses(kind: type) -> set[type]:
    return {kind}.union(*(subclasses(below) for below in kind.__subclasses__()))


def test_a_measure_that_is_not_ours_is_refused_before_it_is_written() -> None:
    @dataclass(frozen=True)
    class Special(Count):
        pass

    with pytest.raises(BraidError, match="Special is not a part"):
        encode(View(name="one", source=plain, measures={"m": Special()}))


def changed(**fields: Any) -> dict[str, Any]:
    document = encode(known)
    return document | {"braid": "9.9.9", "view": document["view"] | fields}


def test_a_field_of_a_newer_braid_is_named_with_the_version_to_use() -> None:
    with pytest.raises(
        BraidError, match=r"view 'known', written by Braid 9\.9\.9, has a field 'topping' of View"
    ):
        decode(changed(topping=1))
    with pytest.raises(
        BraidError, match=rf"Braid {braid_version()} does not know: use Braid 9\.9\.9 or a newer"
    ):
        decode(changed(topping=1))


@pytest.mark.parametrize("kind", ["TopK", "os.system", "braid.view.View", None, ["View"]])
def test_only_known_classes_are_built(kind: object) -> None:
    with pytest.raises(BraidError, match="does not know"):
        decode(changed(window={"is": kind}))


@pytest.mark.parametrize("later", ["lateness", "each"])
def test_a_field_that_came_later_has_its_default(later: str) -> None:
    document = encode(known)
    del document["view"][later]
    assert decode(document) == known


def test_a_stored_definition_is_checked_like_a_written_one() -> None:
    with pytest.raises(BraidError, match=r"is refused by Braid .*there is no column 'nope'") as refused:
        decode(changed(where="nope = 1"))
    assert not isinstance(refused.value, DefinitionError), "the user's own file is not to blame"


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"view": "known"},
        {"view": encode(known)["view"]["source"]},
        changed(window={"is": "Session", "gap": {"is": "timedelta"}}),
        changed(window={"is": "Session", "gap": "30 minutes"}),
        changed(window={"is": "Session"}),
        changed(measures={"is": "map", "items": [["a"]]}),
        changed(measures={"is": "map"}),
    ],
)
def test_a_damaged_document_is_an_error_that_says_what_to_do(document: object) -> None:
    with pytest.raises(BraidError, match=r"(?i)restore"):
        decode(document)


def test_a_number_keeps_its_type() -> None:
    view = View(name="one", source=plain, measures={"m": quantile("bytes", 1), "n": mean("bytes")})
    assert repr(stored(view).measures["m"]) == "Quantile(column='bytes', q=1)"
