"""Gates on real days: each expectation holds and fails where it should, and the Data Docs say so, to nobody else."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from batch_layer.days import DayRecord, Gate, read_gates, write_days, write_gates
from batch_layer.gates import data_docs
from batch_layer.gates.judge import audit_inputs, audit_outputs
from batch_layer.gates.profile import OutputProfile, input_profiles, no_events, no_states, output_profiles
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
    session,
    sum_,
    tumbling,
)
from braid.deploy import store as deployment
from braid.errors import DefinitionError
from braid.log.events import log_schema
from braid.runtime.settings import Settings
from braid.states.spark import prepare
from braid.tables.view_tables import ViewTables, base_columns

ROOT = Path(__file__).parents[2]
DAY = date(2024, 5, 1)
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
CUT = datetime(2024, 5, 2, 1, tzinfo=UTC)
requests = Source(
    name="requests",
    kafka_topic="requests",
    schema="id string, time timestamp, url string, status int, bytes bigint, ratio double",
    event_time="time",
    expect=(
        Volume(),
        Filled("url", at_least=0.75),
        Holds("status is plausible", "status between 100 and 599 -- HTTP", at_least=0.75),
        Arrived(by="12 hours"),
        Quarantined(at_most=0.2),
    ),
)
traffic = View(
    name="traffic",
    source=requests,
    keys=("url",),
    window=tumbling("1 minute"),
    measures={"hits": count(), "bytes": sum_("bytes"), "ratio": sum_("ratio"), "ok": count("status")},
    expect=(NotNegative(), KeysPresent(at_least=0.75), AddsUp(), Drift("hits", 0.5), Drift("ratio", 0.5)),
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=str(tmp_path / "home"))


def events_of(spark: Any, rows: Sequence[dict[str, Any]]) -> Any:
    """A day's rows of the log; what a row leaves out is null."""
    schema = log_schema(requests)
    given = {"time": NOON, "day": DAY, "_epoch": NOON, "_arrival": NOON}
    return spark.createDataFrame([[(given | row).get(name) for name in schema.names] for row in rows], schema)


def states_of(spark: Any, rows: Sequence[dict[str, Any]], view: View = traffic) -> Any:
    from pyspark.sql import functions as F

    states = prepare(view, events_of(spark, rows))
    known = states.withColumn("through", F.lit(CUT)).withColumn("_late", F.lit(0).cast("bigint"))
    return known.select(*base_columns(view))


def judged(settings: Settings, events: Any, rejected: float = 0, trailing: Any = ()) -> Verdict:
    """What the input gate says of the day, which is recorded."""
    verdict = input_verdict(events, InputDay(requests, DAY, CUT, rejected, trailing))
    write_gates(settings, requests.name, {DAY: Gate(CUT, verdict)})
    return verdict


def input_verdict(events: Any, day: InputDay) -> Verdict:
    profile = input_profiles(day.source, events).get(day.day, no_events(day.source))
    return audit_inputs([(day, profile)]).verdicts[day.day]


def profile_of(view: View, states: Any, day: date) -> OutputProfile:
    """The same of states in Spark and in this process."""
    found, here = (output_profiles(view, one) for one in (states, states.toArrow()))
    assert here == found
    return found.get(day, no_states(view))


def output_verdict(states: Any, day: OutputDay) -> Verdict:
    profile = profile_of(day.view, states, day.day)
    return audit_outputs([(day, profile)]).verdicts[day.day]


def totals(states: Any) -> dict[str, float]:
    return dict(profile_of(traffic, states, DAY).totals)


def failures(verdict: Verdict) -> dict[str, Any]:
    return {check.name: check.observed for check in verdict.failed}


GOOD = [{"url": "/a", "status": 200, "bytes": 1, "ratio": 0.5}] * 3 + [{"status": 7}]


def test_a_day_at_the_border_of_every_expectation_passes(spark: Any, settings: Settings) -> None:
    verdict = judged(settings, events_of(spark, GOOD), rejected=1, trailing=(2, 2, 2))
    assert verdict.passed
    assert [check.observed for check in verdict.checks] == [2, 0.75, 0.75, "2024-05-01T12:00:00+00:00", 0.2]


def test_a_day_that_is_wrong_in_every_way_is_told_each_of_them(spark: Any, settings: Settings) -> None:
    early = NOON - timedelta(seconds=1)
    wrong = [{"_arrival": early, "status": 7}] * 2 + [{"_arrival": early, "url": "/", "status": 200}] * 3
    verdict = judged(settings, events_of(spark, wrong), rejected=1.5, trailing=(2, 2, 2))
    assert failures(verdict) == {
        "events against the days before": 2.5,
        "share of events with a value in 'url'": 0.6,
        "share of events for which 'status is plausible'": 0.6,
        "arrival of the day's newest event": "2024-05-01T11:59:59+00:00",
        "share of quarantined records": 1.5 / 6.5,
    }
    assert "share of events with a value in 'url' is 0.6, wanted at least 0.75" in verdict.says()


def test_a_condition_that_is_null_is_not_broken(spark: Any, settings: Settings) -> None:
    assert "status is plausible" not in judged(settings, events_of(spark, [{"url": "/"}])).says()


def test_a_day_without_events_fails_only_where_events_were_to_be(spark: Any, settings: Settings) -> None:
    nothing = events_of(spark, [])
    verdict = judged(settings, nothing)
    assert failures(verdict) == {"arrival of the day's newest event": "unknown, as there are no events"}
    assert failures(judged(settings, nothing, trailing=(5, 5, 5)))["events against the days before"] == 0
    assert failures(judged(settings, nothing, rejected=2))["share of quarantined records"] == 1


@pytest.mark.parametrize("sql", ["nofunction(status)", "status <", "sum(status) > 1"])
def test_a_condition_that_spark_does_not_understand_is_an_error_and_no_verdict(spark: Any, sql: str) -> None:
    source = replace(requests, expect=Holds("it is even", sql))
    with pytest.raises(DefinitionError, match=r"source 'requests': expect does not compile: .* Mend the SQL"):
        input_verdict(events_of(spark, GOOD), InputDay(source, DAY, CUT, 0, ()))


def output(settings: Settings, states: Any, events: int, published: Any = None) -> Verdict:
    """What the output gate says of the day, which is recorded."""
    verdict = output_verdict(states, OutputDay(traffic, DAY, CUT, events, published))
    deployment.deploy_first(settings, traffic, CUT)
    tables = ViewTables(settings, traffic.name, 1)
    write_days(tables, [DayRecord(DAY, gate=Gate(CUT, verdict))])
    return verdict


def test_states_that_hold_what_went_in_pass(spark: Any, settings: Settings) -> None:
    states = states_of(spark, GOOD)
    assert totals(states) == {"hits": 4, "bytes": 3, "ratio": 1.5, "ok": 4}
    verdict = output(settings, states, events=4, published={"hits": 8.0, "ratio": 1.0})
    assert verdict.passed
    assert [check.observed for check in verdict.checks] == [1, 0.75, 0, 0.5, 0.5]


def test_states_that_are_wrong_in_every_way_are_told_each_of_them(spark: Any, settings: Settings) -> None:
    from pyspark.sql import functions as F

    wrong = states_of(spark, [{"ratio": float("nan")}, {"url": "/"}]).withColumn("count_status", F.lit(-1))
    verdict = output(settings, wrong, events=3, published={"hits": 1.0, "ratio": 1.0})
    assert failures(verdict) == {
        "lowest count": -1,
        "share of events with all keys": 0.5,
        "events in the states beyond those that went in": -1,
        "change of 'hits' since it was last published": 1,
        "change of 'ratio' since it was last published": "not a number",
    }
    assert "ratio" not in totals(wrong), "what is not a number cannot be written down"


def test_the_marker_of_a_day_without_events_is_no_state(spark: Any, settings: Settings) -> None:
    from pyspark.sql import functions as F

    nulls = {name: F.lit(None) for name in base_columns(traffic) if name not in ("day", "through")}
    marker = states_of(spark, GOOD[:1]).withColumns(nulls)
    assert totals(marker) == {"hits": 0, "bytes": 0, "ratio": 0, "ok": 0}
    assert output(settings, marker, events=0).passed
    emptied = output(settings, marker, events=0, published={"hits": 8.0})
    assert failures(emptied) == {"change of 'hits' since it was last published": 1}


def test_sessions_add_up_too(spark: Any) -> None:
    visits = replace(traffic, window=session(gap="30 minutes"))
    states = states_of(spark, GOOD, visits)
    assert output_verdict(states, OutputDay(visits, DAY, CUT, 4, None)).passed
    assert not output_verdict(states, OutputDay(visits, DAY, CUT, 5, None)).passed


def test_days_are_profiled_together_and_judged_each_by_itself(spark: Any) -> None:
    later = DAY + timedelta(days=1)
    rows = GOOD + [{"day": later, "time": NOON + timedelta(days=1)}] * 2
    profiles = input_profiles(requests, events_of(spark, rows))
    assert {day: one.events for day, one in profiles.items()} == {DAY: 4, later: 2}
    found = audit_inputs([(InputDay(requests, day, CUT, 0, ()), one) for day, one in profiles.items()])
    assert {day: verdict.passed for day, verdict in found.verdicts.items()} == {DAY: True, later: False}


def test_the_data_docs_name_what_failed(spark: Any, settings: Settings) -> None:
    judged(settings, events_of(spark, GOOD), rejected=4)
    output(settings, states_of(spark, GOOD), events=4)
    index = Path(data_docs.build(settings))
    assert index == settings.local_home() / "quality" / "data_docs" / "index.html"
    text = index.read_text()
    assert "share of quarantined records is 0.5, wanted at most 0.2" in text
    assert text.index("source requests") < text.index("view traffic"), "what failed comes first"
    links = re.findall(r'href="([^"]+)"', text)
    assert links == ["source-requests/2024-05-01/index.html", "view-traffic/2024-05-01/index.html"]
    page = (index.parent / links[0]).read_text()
    assert "share of quarantined records: at most 0.2" in page
    assert "Failed" in page
    home = re.findall(r'href="([^"#]+)"', page)
    assert home
    assert {(index.parent / links[0]).parent.joinpath(link).resolve() for link in home} == {index}


def test_an_audit_takes_the_place_of_what_was_said_of_the_day_before(spark: Any, settings: Settings) -> None:
    events = events_of(spark, GOOD)
    judged(settings, events, rejected=4)
    judged(settings, events)
    assert "wanted" not in Path(data_docs.build(settings)).read_text()


def test_an_index_can_be_built_before_anything_was_audited(settings: Settings) -> None:
    assert "No day has been audited yet" in Path(data_docs.build(settings)).read_text()


def test_old_pages_go_and_failed_ones_go_last(
    spark: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_docs, "KEPT", 2)
    events = events_of(spark, GOOD)
    source = replace(requests, expect=Quarantined())
    for number, rejected in enumerate((4, 0, 0, 0)):
        # Of whatever day: only how many there are is judged.
        verdict = input_verdict(events, InputDay(source, DAY, CUT, rejected, ()))
        write_gates(settings, requests.name, {DAY + timedelta(days=number): Gate(CUT, verdict)})
        data_docs.build(settings)
    index = Path(data_docs.build(settings))
    kept = sorted(folder.name for folder in (index.parent / "source-requests").iterdir())
    assert kept == ["2024-05-01", "2024-05-04"]
    assert re.findall(r"/(2024[\d-]+)/", index.read_text()) == ["2024-05-01", "2024-05-04"]


def test_a_run_writes_the_pages_of_the_days_that_failed_and_brings_those_up_to_date_that_are_there(
    settings: Settings,
) -> None:
    good, bad = Verdict((Check("a", True, 1, "at least 1"),)), Verdict((Check("a", False, 0, "<b>"),))
    days = [DAY + timedelta(days=n) for n in range(3)]
    write_gates(
        settings, "requests", dict(zip(days, map(partial(Gate, CUT), (good, bad, good)), strict=True))
    )
    index = Path(data_docs.build(settings, all_days=False))
    pages = sorted(page.parent.name for page in index.parent.glob("*/*/index.html"))
    assert pages == [str(days[1])]
    assert len(re.findall(r"<a href", index.read_text())) == 1
    page = index.parent / "source-requests" / str(days[1]) / "index.html"
    assert "&lt;b&gt;" in page.read_text(), "what people wrote is text, and no page of theirs"
    write_gates(settings, "requests", {days[1]: Gate(CUT, good)})
    data_docs.build(settings, all_days=False)
    assert "Failed" not in page.read_text()


def test_pages_fetch_nothing_and_run_nothing(spark: Any, settings: Settings) -> None:
    judged(settings, events_of(spark, GOOD), rejected=4)
    pages = list(Path(data_docs.build(settings)).parent.rglob("*.html"))
    assert len(pages) == 2
    for page in pages:
        text = page.read_text()
        assert "//" not in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL), page
        assert "<script" not in text


# What would leave the machine is printed, whoever catches the failure: also what an import sends.
AUDITS = """
import sys
sent = ("socket.connect", "socket.getaddrinfo", "socket.sendto")
sys.addaudithook(lambda event, details: print(event, details) if event in sent else None)
from datetime import UTC, date, datetime, timedelta
from batch_layer.days import Gate, write_gates
from batch_layer.gates import data_docs
from batch_layer.gates.gauges import Gauge
from batch_layer.gates.judge import context, judge
from braid.runtime.settings import Settings

settings, first = Settings(home=sys.argv[1]), int(sys.argv[2])
for number in range(first, first + 20):
    gauge = Gauge("lowest count", float(number % 2) - 1, "at least 0", at_least=0)
    day = date(2024, 5, 1) + timedelta(days=number)
    found = judge({day: (gauge,)})
    write_gates(settings, "a", {day: Gate(datetime(2024, 6, 1, tzinfo=UTC), found.verdicts[day])})
    data_docs.keep(settings, "source a", found.validation)
    data_docs.build(settings)
assert context().variables.analytics_enabled is False
"""


def test_processes_that_audit_at_the_same_time_do_not_disturb_each_other_and_say_nothing_to_anybody(
    settings: Settings,
) -> None:
    """Days 0 to 19 and days 10 to 29 of one view: some are audited by both."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", AUDITS, settings.home, str(first)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for first in (0, 10)
    ]
    printed = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0, 0], printed
    assert printed == [("", "")] * 2, "neither to a terminal nor to another machine"
    site = settings.local_home() / "quality" / "data_docs"
    gates = read_gates(settings, "a")
    assert len(gates) == 30
    assert sum(gate.verdict.passed for gate in gates.values()) == 15
    assert len(re.findall(r"<tr><td><span", (site / "index.html").read_text())) == 30
    assert len(list(site.glob("*/*/index.html"))) == 30
    assert json.loads((site / "source-a" / "validation.json").read_text())["suite_name"] == "source a"
    assert not [file for file in site.rglob(".*") if file.is_file()], "no draft is left"
