"""The fingerprint changes exactly when results can change."""

from dataclasses import replace
from typing import Any

import pytest

from braid import Lookup, Source, View, all_time, count, quantile, session, sliding, sum_, tumbling
from braid.define.fingerprint import (
    fingerprint,
    state_fingerprint,
    used_columns,
    used_derive,
    used_lookups,
)

SCHEMA = "id string, time timestamp, host string, url string, status int, bytes bigint, extra string"
requests = Source(name="requests", kafka_topic="requests", schema=SCHEMA, event_time="time", event_id="id")
users = Lookup(table="users.csv", on="host", columns=("country", "team"))
known = View(name="known", source=requests, keys=("host",), measures={"seen": count()})
seen = Lookup(table=known, on="host", columns=("seen",))
view = View(
    name="traffic",
    source=requests,
    enrich=(users, seen),
    derive={"path": "split_part(url, '?', 1)", "place": "lower(path) || country", "unused": "lower(extra)"},
    where="status < 400 AND url != 'X' and seen > 1",
    keys=("place", "status"),
    window=sliding("5 minutes", every="1 minute"),
    measures={"hits": count(), "size": sum_("bytes"), "p95": quantile("bytes", 0.95)},
)

plain = View(name="plain", source=requests, measures={"n": count()})


def other_source(**changes: Any) -> View:
    return replace(view, source=replace(requests, **changes))


@pytest.mark.parametrize(
    "same",
    [
        replace(view, name="renamed"),
        replace(view, mode="kappa"),
        replace(view, keys=("status", "place")),
        replace(view, measures=dict(reversed(list(view.measures.items())))),
        replace(view, where="STATUS<400 -- only good ones\n and URL != 'X' and seen /* twice */ > 1"),
        replace(view, derive={k: v for k, v in view.derive.items() if k != "unused"}),
        replace(view, derive={"unused": "1", **{k: v for k, v in view.derive.items() if k != "unused"}}),
        replace(view, derive={**view.derive, "path": "split_part( url,'?',1 )"}),
        replace(view, enrich=(seen, users)),
        replace(view, enrich=(replace(users, columns=("country",)), seen)),
        replace(view, enrich=(*view.enrich, Lookup(table="more.csv", on="url", columns=("title",)))),
        replace(view, enrich=(users, replace(seen, table=replace(known, name="renamed", mode="kappa")))),
        other_source(schema=SCHEMA + ", added double"),
        other_source(schema=SCHEMA.replace("extra string", "extra int")),
        other_source(schema=", ".join(reversed(SCHEMA.split(", ")))),
        other_source(
            rules={"ok": "status > 0"}, keep_unknown=True, dedup_horizon="2 hours", kafka_topic="t2"
        ),
    ],
)
def test_what_cannot_change_a_result_does_not_change_the_fingerprint(same: View) -> None:
    assert repr(same) != repr(view)
    assert fingerprint(same) == fingerprint(view)
    assert state_fingerprint(same) == state_fingerprint(view)


@pytest.mark.parametrize(
    "changed",
    [
        other_source(name="other"),
        other_source(timezone="Europe/Berlin"),
        other_source(schema=SCHEMA + ", seen_at timestamp", event_time="seen_at"),
        other_source(schema=SCHEMA.replace("bytes bigint", "bytes int")),
        other_source(schema=SCHEMA.replace("host string", "host bigint")),
        replace(view, where=None),
        replace(view, where="status < 400 AND url != 'x' and seen > 1"),
        replace(view, where="status < 400 AND url != 'X ' and seen > 1"),
        replace(view, derive={**view.derive, "path": "split_part(url, '#', 1)"}),
        replace(view, keys=("place",)),
        replace(view, window=tumbling("2 minutes")),
        replace(view, window=session(gap="5 minutes")),
        replace(view, window=all_time()),
        replace(view, measures={**view.measures, "more": sum_("status")}),
        replace(view, measures={"hits": count(), "p95": quantile("bytes", 0.95), "size": sum_("status")}),
        replace(view, enrich=(replace(users, table="others.csv"), seen)),
        replace(view, enrich=(replace(users, columns={"team": "country"}), seen)),
        replace(view, enrich=(users, replace(seen, table=replace(known, where="status < 500")))),
    ],
)
def test_what_can_change_a_result_changes_both_fingerprints(changed: View) -> None:
    assert fingerprint(changed) != fingerprint(view)
    assert state_fingerprint(changed) != state_fingerprint(view)


@pytest.mark.parametrize(
    "presented",
    [
        replace(view, measures={**view.measures, "p95": quantile("bytes", 0.5)}),
        replace(view, measures={"requests": count(), "size": sum_("bytes"), "p95": quantile("bytes", 0.95)}),
        replace(view, measures={**view.measures, "again": count()}),
        replace(view, window=tumbling("1 minute")),
        replace(view, window=sliding("10 minutes", every="1 minute")),
    ],
)
def test_what_changes_only_the_presentation_keeps_the_stored_tables(presented: View) -> None:
    assert fingerprint(presented) != fingerprint(view)
    assert state_fingerprint(presented) == state_fingerprint(view)


def test_each_is_part_of_the_identity_and_only_where_there_is_one() -> None:
    repeated = replace(view, each={"word": "split(url, '/')"})
    for of in (fingerprint, state_fingerprint):
        # As they were before views had such a field: what is deployed must not be replayed for it.
        assert of(replace(view, each={})) == of(view)
        assert of(repeated) != of(view)
        assert of(replace(repeated, each={"word": "SPLIT(url,'/') -- words"})) == of(repeated)
        assert of(replace(repeated, each={"word": "split(url, '.')"})) != of(repeated)
    assert fingerprint(plain) == "33bd3cf1f290"


def test_an_array_is_used_whether_its_elements_are_or_not() -> None:
    alone = replace(plain, derive={"parts": "split(url, '/')"}, each={"part": "parts"})
    assert used_columns(alone) == ("time", "url")
    assert list(used_derive(alone)) == ["parts"]


def test_fingerprints_are_the_same_in_every_process() -> None:
    assert fingerprint(plain) == fingerprint(replace(plain))
    assert len(fingerprint(plain)) == 12
    assert int(fingerprint(plain), 16) >= 0


def test_the_columns_that_are_used_are_found_through_what_is_derived_from_them() -> None:
    assert used_columns(view) == ("time", "host", "url", "status", "bytes")
    assert list(used_derive(view)) == ["path", "place"]
    assert used_lookups(view) == (users, seen)
    alone = View(name="alone", source=requests, enrich=users, derive={"a": "url"}, measures={"n": count()})
    assert used_columns(alone) == ("time",)
    assert (used_derive(alone), used_lookups(alone)) == ({}, ())


def test_a_column_is_used_however_its_name_is_written() -> None:
    written = View(name="w", source=requests, where="URL like 'x%' and `Status` = 1", measures={"n": count()})
    assert used_columns(written) == ("time", "url", "status")
