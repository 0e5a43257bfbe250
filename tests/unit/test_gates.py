"""Expectations are values that are checked when they are written, and say what they want and what they saw."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_layer.gates.gauges import Gauge, input_gauges, output_gauges
from batch_layer.gates.judge import judge
from batch_layer.gates.profile import InputProfile, OutputProfile
from batch_layer.gates.values import Check, InputDay, OutputDay, Verdict
from braid import (
    AddsUp,
    Arrived,
    Drift,
    Filled,
    Holds,
    KeysPresent,
    NotNegative,
    Quarantined,
    Source,
    View,
    Volume,
    count,
    mean,
    sum_,
    tumbling,
)
from braid.define.codec import decode, encode
from braid.define.fingerprint import fingerprint, state_fingerprint
from braid.define.loading import collect
from braid.deploy.plan import differences
from braid.deploy.versions import Version
from braid.errors import DefinitionError

DAY = date(2024, 5, 1)
CUT = datetime(2024, 5, 2, 1, tzinfo=UTC)
requests = Source(
    name="requests",
    kafka_topic="requests",
    schema="id string, time timestamp, url string, status int, bytes bigint",
    event_time="time",
)
traffic = View(
    name="traffic",
    source=requests,
    keys=("url",),
    window=tumbling("1 minute"),
    measures={"hits": count(), "bytes": sum_("bytes"), "size": mean("bytes")},
)


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ("all good", r"source 'requests': expect is 'all good': write a tuple, such as \(Quarantined"),
        (
            (NotNegative(),),
            r"NotNegative\(\) does not belong here: use Volume, Filled, Holds, Arrived, Quarantined",
        ),
        ((Filled("ulr"),), r"'ulr' is not a column. Did you mean 'url'\?"),
        ((Holds("it is plausible", "statsu > 1"),), r"there is no column 'statsu'. Did you mean 'status'\?"),
        ((Quarantined(0.1), Quarantined(0.2)), "the share of quarantined records is expected twice"),
    ],
)
def test_an_expectation_that_cannot_work_is_refused_where_the_source_is_defined(
    expect: Any, message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        replace(requests, expect=expect)


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ((Quarantined(),), r"view 'traffic': expect: Quarantined\(at_most=0.1\) does not belong here"),
        ((Drift("hit"),), r"'hit' is not a measure. Did you mean 'hits'\?"),
        ((Drift("size"),), r"'size' has no total for a day.* The measures that have one are: hits, bytes\."),
    ],
)
def test_an_expectation_that_cannot_work_is_refused_where_the_view_is_defined(
    expect: Any, message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        replace(traffic, expect=expect)


def test_keys_are_expected_only_where_there_are_some() -> None:
    with pytest.raises(DefinitionError, match="the view has no keys: remove it"):
        replace(traffic, keys=(), expect=KeysPresent())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Filled("url", at_least=99), "Filled: at_least is 99: write a share between 0 and 1"),
        (lambda: Filled(""), "Filled: column is ''"),
        (lambda: Quarantined(at_most=-0.1), "Quarantined: at_most is -0.1"),
        (lambda: Quarantined(at_most=True), "at_most is True"),
        (lambda: Quarantined(at_most=float("nan")), "at_most is nan"),
        (lambda: Volume(at_least=3), "Volume: at_most is 2.0: write a multiple that is not below at_least"),
        (lambda: Volume(days=2), "days is 2: write a whole number of days, 3 or more"),
        (lambda: Volume(days=7.5), "days is 7.5"),  # type: ignore[arg-type]
        (lambda: Arrived(by="soon"), "Arrived: by: 'soon' is not a length of time"),
        (lambda: Drift("hits", at_most=float("inf")), "Drift: at_most is inf"),
        (lambda: Holds("it is new", "time > now()"), "now gives another value each time"),
        (lambda: Holds("it is one", "status = (1"), "never closed"),
        (lambda: Holds("", "status = 1"), "what it says is ''"),
    ],
)
def test_a_value_that_an_expectation_cannot_have_is_named_with_what_to_write(make: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        make()


def test_one_expectation_needs_no_tuple_and_none_at_all_switches_the_gate_off() -> None:
    assert replace(requests, expect=Arrived(by="120 min")).expect == (Arrived(by="2 hours"),)
    assert replace(requests, expect=()).expect == ()
    assert replace(traffic, expect=[]).expect == ()


def test_what_is_expected_by_default_is_little() -> None:
    assert requests.expect == (Quarantined(at_most=0.2),)
    assert traffic.expect == (NotNegative(), AddsUp()), "a null key can be legitimate"


strict = replace(
    traffic,
    source=replace(requests, expect=(Filled("url"), Volume(), Holds("ok", "status < 400"))),
    expect=(Drift("hits"), KeysPresent()),
)


def test_expectations_are_policy_and_change_neither_a_view_nor_its_fingerprints() -> None:
    assert strict == traffic
    assert hash(strict) == hash(traffic)
    assert (fingerprint(strict), state_fingerprint(strict)) == (
        fingerprint(traffic),
        state_fingerprint(traffic),
    )
    assert differences(traffic, strict) == ()


def test_a_running_stream_is_not_started_anew_for_other_expectations() -> None:
    stored = decode(json.loads(json.dumps(encode(strict))))
    assert stored == strict, "what the engine compares"
    assert Version(1, stored, "active", CUT) == Version(1, strict, "active", CUT)


def test_expectations_are_not_stored_with_what_is_deployed() -> None:
    assert "expect" not in json.dumps(encode(strict))
    assert decode(encode(strict)).expect == traffic.expect
    assert decode(encode(strict)).source.expect == requests.expect


def test_definitions_keep_the_expectations_that_they_were_written_with() -> None:
    found = collect([strict], "here")
    assert found.view("traffic").expect == strict.expect
    assert found.source("requests").expect == strict.source.expect


def gauge_of(expect: Any, events: int = 0, **day: Any) -> Gauge:
    """The gauge of one input expectation."""
    source = replace(requests, expect=expect, timezone=day.pop("timezone", "UTC"))
    profile = InputProfile(events, day.pop("satisfied", {}), day.pop("newest", None))
    given_day = InputDay(source, day.pop("day", DAY), CUT, day.pop("rejected", 0), day.pop("trailing", ()))
    return input_gauges(given_day, profile)[0]


def drift_of(published: Any, totals: Any, at_most: float = 0.5) -> Gauge:
    view = replace(traffic, expect=Drift("hits", at_most))
    return output_gauges(OutputDay(view, DAY, CUT, 0, published), OutputProfile(0, 0, None, totals))[0]


def holds(gauge: Gauge) -> bool:
    assert gauge.value is not None
    above = gauge.at_least is None or gauge.value >= gauge.at_least
    return above and (gauge.at_most is None or gauge.value <= gauge.at_most)


@given(events=st.integers(1, 10**9), rejected=st.integers(0, 10**9))
def test_a_share_at_the_border_passes_and_any_beyond_it_fails(events: int, rejected: int) -> None:
    border = rejected / (rejected + events)
    assert holds(gauge_of(Quarantined(at_most=border), events, rejected=rejected))
    assert not holds(gauge_of(Quarantined(at_most=border), events, rejected=rejected + 1 + rejected // 10**6))


@given(st.lists(st.integers(1, 10**6), min_size=3, max_size=20))
def test_a_day_like_all_days_before_it_has_the_expected_volume(trailing: list[int]) -> None:
    same = [trailing[0]] * len(trailing)
    gauge = gauge_of(Volume(at_least=1, at_most=1, days=5), same[0], trailing=tuple(same))
    assert holds(gauge)


def test_a_volume_is_judged_by_the_days_with_events_among_the_last_ones() -> None:
    trailing = (9_000, 9_000, 100, 0, 200, 0, 300)
    gauge = gauge_of(Volume(days=5), 400, trailing=trailing)
    assert gauge.value == 2
    assert gauge.wanted == "between 0.5 and 2 times the mean of the days before (200 events, 3 days)"
    assert holds(gauge)
    assert not holds(gauge_of(Volume(days=5), 401, trailing=trailing))
    assert not holds(gauge_of(Volume(days=5), 0, trailing=trailing)), "a silent day"


def test_a_volume_is_not_judged_before_three_days_are_known() -> None:
    gauge = gauge_of(Volume(), 1, trailing=(10**6, 0, 10**6))
    assert gauge.value is None
    assert "once 3 of the last 7 had events" in gauge.wanted


def test_a_day_without_events_has_no_shares_to_judge() -> None:
    for one in (Quarantined(), Filled("url"), Holds("it is plausible", "status > 1")):
        assert gauge_of(one, satisfied={one.name: 0}).value is None


def test_a_source_that_goes_silent_before_the_end_of_its_day_is_noticed() -> None:
    end = datetime(2024, 5, 2, tzinfo=UTC)
    by = Arrived(by="2 hours")
    on_time, early = (gauge_of(by, newest=end - timedelta(hours=2, seconds=late)) for late in (0, 1))
    assert holds(on_time)
    assert not holds(early)
    assert (early.observed, early.wanted) == (
        "2024-05-01T21:59:59+00:00",
        "not before 2024-05-01T22:00:00+00:00",
    )
    assert holds(gauge_of(by, newest=end + timedelta(days=900))), "history is imported long after its days"
    assert not holds(gauge_of(by)), "a whole day of silence"


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [("Europe/Berlin", date(2024, 3, 31), 23), ("Europe/Berlin", date(2024, 10, 27), 25), ("UTC", DAY, 24)],
)
def test_a_day_ends_when_it_does_in_the_zone_of_its_source(zone: str, day: date, hours: int) -> None:
    assert gauge_of(Arrived(), timezone=zone, day=day).value == hours, (
        "of a day without events all is silence"
    )


def test_drift_is_a_share_of_what_was_published() -> None:
    assert drift_of({"hits": 100.0}, {"hits": 150.0}).value == 0.5
    assert holds(drift_of({"hits": 100.0}, {"hits": 50.0}))
    assert not holds(drift_of({"hits": 100.0}, {"hits": 49.0}))
    assert not holds(drift_of({"hits": -100.0}, {"hits": 100.0}, at_most=1.9))


def test_the_first_events_of_a_day_have_not_drifted() -> None:
    for published in (None, {}, {"hits": 0.0}):
        assert drift_of(published, {"hits": 10.0}).value is None


def test_a_total_that_is_no_number_any_more_has_drifted() -> None:
    gauge = drift_of({"hits": 1.0}, {})
    assert not holds(gauge)
    assert gauge.observed == "not a number"


failing = Check("share of quarantined records", False, 0.4, "at most 0.2")
passing = Check("lowest count", True, 3, "at least 0")
unjudged = Check("events against the days before", True, None, "between 0.5 and 2")


def test_a_verdict_says_in_one_sentence_what_failed_with_what_was_seen_and_wanted() -> None:
    verdict = Verdict((passing, failing, unjudged))
    assert not verdict.passed
    assert verdict.says() == "share of quarantined records is 0.4, wanted at most 0.2."
    assert Verdict((passing, unjudged)).says() == "all expectations hold (2)."
    assert Verdict(()).passed
    assert Verdict(()).says() == "nothing is expected."


def test_a_verdict_survives_being_written_down() -> None:
    verdict = Verdict((passing, failing, unjudged))
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_all_days_are_judged_at_once_and_the_failing_ones_are_named() -> None:
    """A day whose number does not exist is not judged, and holds."""
    shares = {DAY + timedelta(days=n): share for n, share in enumerate((0.1, 0.3, None, 0.2, float("inf")))}
    gauges = {
        day: (
            Gauge("share", share, "at most 0.2", at_most=0.2),
            Gauge("unknown", None, "at least 1", at_least=1),
            Gauge("balance", float(n), "exactly 0", at_least=0, at_most=0),
        )
        for n, (day, share) in enumerate(shares.items())
    }
    found = judge(gauges)
    failed = {day: [check.name for check in verdict.failed] for day, verdict in found.verdicts.items()}
    assert list(failed.values()) == [[], ["share", "balance"], ["balance"], ["balance"], ["share", "balance"]]
    assert found.validation is not None
    assert found.validation["success"] is False
    one = found.validation["results"][0]["result"]
    assert (one["element_count"], one["missing_count"], one["unexpected_count"]) == (5, 1, 2)


def test_nothing_to_judge_asks_nobody() -> None:
    assert judge({DAY: ()}).verdicts == {DAY: Verdict(())}
    assert judge({DAY: (Gauge("unknown", None, "at least 1", at_least=1),)}).validation is None
