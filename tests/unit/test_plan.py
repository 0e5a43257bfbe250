"""The plan says what differs, what will be done about it, and what that costs."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from braid import Lookup, Source, View, count, quantile, session, sliding, sum_, tumbling
from braid.cli.output import console
from braid.cli.speed.plan import log_cost
from braid.cli.speed.plan import plan as plan_command
from braid.define.fingerprint import fingerprint
from braid.define.loading import Definitions, collect, load_definitions
from braid.deploy.plan import (
    Cost,
    PlannedChange,
    differences,
    plan,
)
from braid.deploy.store import changing
from braid.deploy.versions import Deployment, deployed, promoted, removed, replayed, retired, rolled_back
from braid.errors import BraidError, CheckFailed
from braid.log.contents import create
from braid.log.table import Log
from braid.runtime.settings import Settings

NOW = datetime(2024, 3, 8, 12, tzinfo=UTC)
SCHEMA = "id string, time timestamp, host string, url string, status int, bytes bigint"
LOG = Cost(events=1000, days=3)
requests = Source(name="requests", kafka_topic="requests", schema=SCHEMA, event_time="time", event_id="id")
view = View(
    name="traffic",
    source=requests,
    keys=("url",),
    where="status < 400",
    window=tumbling("1 minute"),
    measures={"hits": count(), "p": quantile("bytes", 0.95)},
)
changed = replace(view, where="status < 500")
presented = replace(view, measures={"hits": count(), "p": quantile("bytes", 0.5)})

one = deployed(Deployment("traffic"), view, NOW)
replaying = deployed(one, changed, NOW)
candidate = replayed(replaying, 2, NOW)
two = promoted(candidate, 2, NOW)


def cost_of_the_log(view: View) -> Cost:
    return LOG


def only(definition: View, deployment: Deployment | None = None) -> PlannedChange:
    present = {deployment.name: deployment} if deployment else {}
    (change,) = plan(collect([definition], "test"), present, cost_of_the_log)
    return change


def test_a_view_that_is_not_deployed_is_new() -> None:
    change = only(view)
    assert (change.kind, change.step, change.cost, change.is_due) == ("new", "start", LOG, True)
    assert (change.old, change.new, change.definition) == (None, fingerprint(view), view)
    assert only(view, removed(one, NOW)).kind == "new"


def test_a_view_that_is_deployed_as_defined_is_unchanged() -> None:
    change = only(view, one)
    assert (change.kind, change.step, change.cost, change.is_due) == ("unchanged", "nothing", Cost(), False)
    assert (change.version, change.differences) == (1, ())
    assert not only(view, replaying).is_due, (
        "what another definition does beside it is not this one's business"
    )


def test_a_changed_filter_is_replayed_and_named() -> None:
    change = only(changed, one)
    assert (change.kind, change.step, change.cost) == ("results changed", "replay", LOG)
    assert [str(difference) for difference in change.differences] == [
        "where: 'status < 400' -> 'status < 500'"
    ]
    assert (change.old, change.new) == (fingerprint(view), fingerprint(changed))


@pytest.mark.parametrize(
    "definition",
    [
        presented,
        replace(view, window=sliding("5 minutes", every="1 minute")),
        replace(view, mode="kappa"),
        replace(view, lateness="1 hour"),
        replace(view, where="STATUS < 400"),
        replace(view, source=replace(requests, rules={"ok": "status > 0"})),
    ],
)
def test_what_keeps_the_tables_takes_effect_without_a_replay(definition: View) -> None:
    change = only(definition, one)
    assert (change.kind, change.step, change.cost) == ("presentation changed", "present", Cost())
    assert (change.version, change.is_due) == (1, True)
    assert len(change.differences) == 1


def test_a_replay_that_was_begun_is_resumed() -> None:
    change = only(changed, replaying)
    assert (change.kind, change.step, change.version, change.cost) == ("in progress", "resume", 2, LOG)
    shorter = deployed(one, changed, NOW, date(2024, 3, 1))
    from_day = only(changed, shorter).from_day
    assert deployed(shorter, changed, NOW, from_day) is shorter


def test_a_candidate_is_compared_and_promoted() -> None:
    change = only(changed, candidate)
    assert (change.kind, change.step, change.version, change.cost) == ("in progress", "promote", 2, Cost())


def test_a_definition_that_goes_back_is_served_from_the_version_that_has_it() -> None:
    change = only(view, two)
    assert (change.kind, change.step, change.version, change.cost) == (
        "results changed",
        "promote",
        1,
        Cost(),
    )
    assert only(view, retired(two, 1, NOW)).step == "replay"
    beside_a_replay = deployed(two, replace(view, where="status < 600"), NOW)
    assert (only(view, beside_a_replay).step, only(view, beside_a_replay).version) == ("promote", 1)
    forth = promoted(two, 1, NOW)
    assert (only(changed, forth).step, only(changed, forth).version) == ("promote", 2)


def test_a_rollback_is_not_undone_by_applying_the_same_definition() -> None:
    back = rolled_back(two, NOW)
    change = only(changed, back)
    assert (change.kind, change.step, change.version) == ("rolled back", "nothing", 2)
    assert "braid kappa promote traffic" in change.action
    assert not change.is_due
    another = replace(view, where="status < 600")
    assert only(another, back).step == "replay"
    assert only(view, back).kind == "unchanged"


def test_a_second_candidate_waits_for_a_decision() -> None:
    change = only(replace(view, where="status < 600"), candidate)
    assert (change.kind, change.step, change.version) == ("results changed", "wait", 2)
    assert "version 2, of another definition, is candidate" in change.action
    assert "braid kappa retire traffic 2" in change.action
    assert not change.is_due


@pytest.mark.parametrize(
    ("definition", "deployment"),
    [
        (changed, one),
        (changed, rolled_back(two, NOW)),
        (changed, replaying),
        (replace(view, where="status < 600"), rolled_back(two, NOW)),
        (replace(view, where="status < 600"), candidate),
        (view, removed(two, NOW)),
    ],
)
def test_what_the_plan_would_deploy_the_deployment_allows(definition: View, deployment: Deployment) -> None:
    change = only(definition, deployment)
    if change.step in ("start", "replay", "resume"):
        deployed(deployment, definition, NOW)
    elif change.step == "wait":
        with pytest.raises(BraidError):
            deployed(deployment, definition, NOW)


def test_a_view_that_is_defined_no_more_is_retired() -> None:
    changes = plan(
        collect([view], "test"), {"gone": replace(two, name="gone"), "traffic": one}, cost_of_the_log
    )
    assert [(change.name, change.kind) for change in changes] == [
        ("traffic", "unchanged"),
        ("gone", "removed"),
    ]
    gone = changes[1]
    assert (gone.step, gone.version, gone.cost, gone.definition) == ("retire", 2, Cost(), None)
    assert (gone.old, gone.new) == (fingerprint(changed), None)
    (still,) = plan(collect([view], "test"), {"gone": removed(two, NOW), "traffic": one}, cost_of_the_log)
    assert still.name == "traffic"


def test_a_view_changes_with_the_view_that_it_looks_up() -> None:
    known = View(name="known", source=requests, keys="host", measures={"seen": count()})
    user = replace(view, enrich=Lookup(table=known, on="host", columns=("seen",)), where="seen > 1")
    narrower = replace(known, where="status < 400")
    after = replace(user, enrich=Lookup(table=narrower, on="host", columns=("seen",)))
    present = {v.name: deployed(Deployment(v.name), v, NOW) for v in (known, user)}
    changes = plan(collect([after], "test"), present, cost_of_the_log)
    assert [(c.name, c.step) for c in changes] == [("known", "replay"), ("traffic", "replay")]
    assert [str(d) for d in changes[1].differences] == [
        "enrich['known'].table.where: nothing -> 'status < 400'"
    ]


def test_results_that_only_braid_changed_are_said_to_be_so() -> None:
    (version,) = one.versions
    older = replace(one, versions=(replace(version, fingerprint="old", state_fingerprint="old states"),))
    change = only(view, older)
    assert (change.kind, change.step, change.old) == ("results changed", "replay", "old")
    assert [difference.field for difference in change.differences] == ["Braid's own computation"]


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (replace(view, keys=("url", "host")), "keys: ('url',) -> ('url', 'host')"),
        (
            replace(view, window=session("1 hour")),
            "window: tumbling windows of 1 minute, stored in panes of 1 minute -> "
            "sessions that end after 1 hour without an event, stored as partial sessions",
        ),
        (
            replace(view, measures={"hits": count()}),
            "measures['p']: Quantile(column='bytes', q=0.95) -> nothing",
        ),
        (
            replace(view, measures={**view.measures, "size": sum_("bytes")}),
            "measures['size']: nothing -> Sum(column='bytes')",
        ),
        (
            replace(view, source=replace(requests, timezone="Asia/Tokyo")),
            "source.timezone: 'UTC' -> 'Asia/Tokyo'",
        ),
        (
            replace(view, enrich=Lookup(table="a.csv", on="host", columns=("team",))),
            "enrich: nothing -> lookup 'a.csv'",
        ),
        (replace(view, each={"part": "split(url, '/')"}), "each['part']: nothing -> \"split(url, '/')\""),
        (replace(view, mode="kappa"), "mode: 'lambda' -> 'kappa'"),
        (replace(view, lateness="1 hour"), "lateness: '10 minutes' -> '1 hour'"),
    ],
)
def test_a_difference_names_its_field_and_both_values(new: View, says: str) -> None:
    assert [str(difference) for difference in differences(view, new)] == [says]


def test_only_what_differs_in_a_lookup_is_named() -> None:
    table = Lookup(table="a.csv", on="host", columns=("team",))
    other = Lookup(table="b.csv", on="host", columns=("team",))
    (difference,) = differences(replace(view, enrich=table), replace(view, enrich=other))
    assert str(difference) == "enrich['b.csv'].table: 'a.csv' -> 'b.csv'"
    known = View(name="known", source=requests, keys="host", measures={"team": count()})
    learnt = Lookup(table=known, on="host", columns=("team",))
    (difference,) = differences(replace(view, enrich=table), replace(view, enrich=learnt))
    assert str(difference) == "enrich['known'].table: 'a.csv' -> view 'known'"


DEFINITIONS = f"""
from braid import Source, View, count, tumbling
requests = Source(name="requests", kafka_topic="requests", schema="{SCHEMA}", event_time="time")
traffic = View(name="traffic", source=requests, keys="url", where="status < {{status}}", measures={{{{"n": count()}}}})
pages = View(name="pages", source=requests, keys="url", measures={{{{"n": count()}}}})
"""
Run = Callable[..., Any]


@pytest.fixture
def run(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`braid plan` over the definitions of this test."""
    monkeypatch.setenv("BRAID_DEFINITIONS", str(tmp_path / "views.py"))
    # Set on the console itself: it reads the environment only once, when it is imported.
    monkeypatch.setattr(console, "_width", 250)
    define(tmp_path, 400)
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command("plan")(plan_command)
    return lambda *arguments: CliRunner().invoke(app, ["plan", *arguments])


def define(folder: Path, status: int) -> None:
    (folder / "views.py").write_text(DEFINITIONS.format(status=status))


def deploy(settings: Settings, definitions: Definitions) -> None:
    for name, definition in definitions.views.items():
        with changing(settings, name) as draft:
            draft.value = deployed(draft.value, definition, NOW)


def test_the_command_lists_every_view_also_without_a_log(run: Run) -> None:
    answer = run("--json")
    assert answer.exit_code == 0
    listed = json.loads(answer.stdout)
    assert [(c["view"], c["change"], c["step"]) for c in listed] == [
        ("traffic", "new", "start"),
        ("pages", "new", "start"),
    ]
    assert listed[0]["cost"] == {"events": 0, "days": 0}


def test_the_command_says_what_differs_and_what_will_be_done(run: Run, home: Path, tmp_path: Path) -> None:
    definitions = load_definitions(str(tmp_path / "views.py"))
    deploy(Settings(home=str(home)), definitions)
    assert "nothing to do" in run().stdout
    define(tmp_path, 500)
    printed = run().stdout
    assert "where: 'status < 400' -> 'status < 500'" in printed
    assert f"fingerprint: {fingerprint(definitions.view('traffic'))} -> " in printed
    assert "replay the log into a new version" in printed
    assert "to do: 1" in printed
    traffic, pages = json.loads(run("--json").stdout)
    assert traffic["differences"] == [{"field": "where", "old": "'status < 400'", "new": "'status < 500'"}]
    assert (pages["change"], pages["step"], pages["action"]) == ("unchanged", "nothing", "nothing")


def test_a_check_fails_when_there_is_something_to_do(run: Run, home: Path, tmp_path: Path) -> None:
    failed = run("--check")
    assert isinstance(failed.exception, CheckFailed)
    assert "traffic, pages" in str(failed.exception)
    assert run("--check", "--json").exit_code == 1
    assert len(json.loads(run("--check", "--json").stdout)) == 2
    deploy(Settings(home=str(home)), load_definitions(str(tmp_path / "views.py")))
    assert run("--check").exit_code == 0


def test_the_cost_is_what_the_log_holds(spark: Any, tmp_path: Path) -> None:
    settings = Settings(home=str(tmp_path))
    log = Log(requests, settings)
    create(spark, log)
    rows = spark.sql(
        "select date'2024-03-08' + cast(id % 2 as int) as day, if(id = 9, 'broken', null) as _error from range(10)"
    )
    rows.write.format("delta").mode("append").save(log.table)
    cost = log_cost(settings)
    assert cost(view) == cost(changed) == Cost(events=9, days=2)
