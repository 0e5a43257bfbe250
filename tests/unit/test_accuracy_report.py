"""A report as a sentence, as a document, as a page and as history: the same numbers, wherever they are read."""

import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from braid import View, count, tumbling
from braid.define.codec import decode, encode
from braid.define.fingerprint import fingerprint
from braid.errors import DefinitionError
from braid.runtime.settings import Settings
from serving_layer.accuracy.lateness.curves import (
    Completeness,
    Curve,
    Lateness,
)
from serving_layer.accuracy.report.history import accuracy_summary, document, history, keep, trend
from serving_layer.accuracy.report.page import DrawnBar, page, templates
from serving_layer.accuracy.report.values import (
    BEYOND,
    MEANINGS,
    UNEXPLAINED,
    Counterexample,
    LogEvent,
    headline,
)
from tests.accuracy import NOON, comparison, curve, made
from tests.serving import SOURCE


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=str(tmp_path))


def test_the_headline_says_how_right_how_soon_and_what_is_missing() -> None:
    assert headline(made()) == (
        "Our live number equals a batch recompute in all 200 groups of 2 days. "
        "Ten seconds after a window's end it is within 0.2 %; what is missing are late events."
    )


def test_the_headline_does_not_call_near_what_is_mostly_missing() -> None:
    few = Completeness("event time", curve("all", *[0.109] * 7), (), ())
    assert headline(made(completeness=few)).endswith(
        "Ten seconds after a window's end by the clock of the events themselves, it has 10.9 % of its events: the "
        "others come late."
    )
    whole = Completeness("arrival", curve("all", *[1.0] * 7), (), ())
    assert headline(made(completeness=whole)).endswith("Ten seconds after a window's end it is complete.")


def test_the_headline_names_the_reasons_of_a_difference() -> None:
    assert headline(made(comparison(wrong=4))).startswith(
        "Our live number differs from a batch recompute by 4 of 10,000 events (0.04 %), and every one of them is "
        "explained: duplicate beyond the horizon."
    )


def test_the_headline_warns_of_what_has_no_explanation() -> None:
    report = made(comparison(wrong=1, cause=UNEXPLAINED))
    assert headline(report).startswith("1 group of 2 days cannot be explained by the log")
    assert not report.holds


def test_a_report_is_a_document_that_json_can_hold() -> None:
    text = json.dumps(document(made(comparison(wrong=4))))
    found = json.loads(text)
    assert found["holds"] is True
    assert found["comparisons"][0]["days"][0] | {"largest": None} == {
        "day": "2026-02-27", "cut": NOON.isoformat(), "groups": 100, "equal": 96, "largest": None, "exceeded": [],
        "share": 0.96, "largest_error": 0.02,
    }  # fmt: skip
    assert found["what_if"]["watermark"]["share"] == pytest.approx(0.0132)


def test_what_json_has_no_word_for_is_nothing_and_all_digits_are_kept() -> None:
    example = Counterexample({"amount": Decimal("1.10")}, {"mean": float("nan")}, {"raw": b"\x01"}, ())
    wrong = comparison(wrong=1, cause=UNEXPLAINED, counterexample=example)
    found = json.loads(json.dumps(document(made(wrong)), allow_nan=False))["comparisons"][0]["counterexample"]
    assert (found["group"], found["served"], found["right"]) == (
        {"amount": "1.10"},
        {"mean": None},
        {"raw": "01"},
    )


def test_the_page_needs_nothing_from_elsewhere_and_shows_every_part(tmp_path: Path) -> None:
    example = Counterexample(
        {"url": "/<x>"}, {"hits": 2}, {"hits": 1}, (LogEvent(0, 41, NOON, NOON, NOON, True),)
    )
    wrong = comparison("stream alone", wrong=4, cause=UNEXPLAINED, counterexample=example)
    text = page(made(comparison(), wrong))
    for title in (
        "Error by day",
        "How soon windows are complete",
        "Why it differs",
        "What other ways",
        "How late",
    ):
        assert title in text
    assert text.count("<svg") == 5
    for outside in ("http:", "https:", "<script", "<link", "src="):
        assert outside not in text
    assert "/&lt;x&gt;" in text
    assert "/<x>" not in text
    assert "<td>41</td>" in text
    assert MEANINGS[UNEXPLAINED].split(":")[0] in text


def test_a_log_without_events_has_a_page_too() -> None:
    nothing = comparison(groups=0, equal=0, events=0, days=(), numbers=())
    empty = Completeness("arrival", Curve("all", 0, ()), (), ())
    late = Lateness(None, None, None, None, None, None, None, 0, ())
    assert "<h1>" in page(made(nothing, completeness=empty, lateness=late))


def test_a_plot_is_well_formed_whatever_its_names_are() -> None:
    plots = templates().get_template("plots.svg").module
    bars = [DrawnBar('a "name" <&>', 0.0, "0"), DrawnBar("b", 1.0, "1")]
    ElementTree.fromstring(plots.across(bars, "what & why"))  # type: ignore[attr-defined]


def test_comparisons_are_kept_with_their_trend(settings: Settings) -> None:
    assert history(settings, "page_traffic") == []
    keep(settings, made(comparison(wrong=4)))
    keep(settings, made(at=NOON + timedelta(hours=2)))
    kept = history(settings, "page_traffic")
    assert [(one.share, one.largest_error, one.holds, one.version) for one in kept] == [
        (0.98, 0.02, True, 3),
        (1.0, 0.0, True, 3),
    ]
    assert trend(kept) == [None, pytest.approx(0.02)]
    assert kept[0].report["comparisons"][0]["causes"][0]["name"] == BEYOND


def test_a_view_that_was_never_compared_has_an_empty_summary(settings: Settings) -> None:
    found = accuracy_summary(settings, "page_traffic")
    assert (found["days"], found["completeness"], found["recommendation"]) == ([], [], None)


def test_the_summary_has_each_day_as_it_was_found_last(settings: Settings) -> None:
    keep(settings, made(comparison(wrong=4)))
    keep(settings, made(comparison(), at=NOON + timedelta(hours=2)))
    found = accuracy_summary(settings, "page_traffic")
    assert [(day["day"], day["share"]) for day in found["days"]] == [("2026-02-27", 1.0), ("2026-02-28", 1.0)]
    assert found["completeness"][2] == {"after_seconds": 10, "share": 0.998}
    assert found["lateness"] == {"median_seconds": 0.4, "p99_seconds": 720.0, "late_events": 31}
    assert found["recommendation"] == "A watermark of 12 minutes would do."


def test_the_summary_remembers_how_the_stream_was_before_its_day_was_published(settings: Settings) -> None:
    keep(settings, made(comparison(), comparison("stream alone", wrong=4)))
    keep(settings, made(comparison(), at=NOON + timedelta(hours=2)))
    assert [day["share"] for day in accuracy_summary(settings, "page_traffic")["days"]] == [0.96, 1.0]


def view_with(**policy: Any) -> View:
    return View(name="hits", source=SOURCE, window=tumbling("1 hour"), measures={"hits": count()}, **policy)


def test_what_a_view_allows_is_policy_and_no_part_of_what_it_is() -> None:
    strict, plain = view_with(accuracy={"hits": 0}), view_with()
    assert dict(strict.accuracy) == {"hits": 0.0}
    assert strict == plain
    assert fingerprint(strict) == fingerprint(plain)
    assert dict(decode(encode(strict)).accuracy) == {}


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        ({"hit": 0}, "'hit' is not a measure. Did you mean 'hits'"),
        ({"hits": -1}, "give the largest relative error that is allowed"),
        ({"hits": "1 %"}, "give the largest relative error that is allowed"),
        ([("hits", 0)], "accuracy"),
    ],
)
def test_what_cannot_be_allowed_is_refused(allowed: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        view_with(accuracy=allowed)
