"""Prometheus takes the rules, and they fire when they should; they and the dashboard name only metrics that exist."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from braid.runtime.metrics import OF_PROCESSES, OF_QUERIES, prometheus
from braid.runtime.status import ChildStatus, ProcessStatus, QueryStatus
from serving_layer.http.metrics import OF_LAYERS, OF_SERVING
from serving_layer.http.monitoring import RULES, grafana_dashboard, prometheus_rules
from tests.conftest import Answer
from tests.documents import DOCS, text_of

KNOWN = {metric.name for metric in (*OF_PROCESSES, *OF_QUERIES, *OF_SERVING, *OF_LAYERS)}


def promtool(*words: str, given: str = "") -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("needs promtool: on Debian, apt-get install prometheus")
    done = subprocess.run([found, *words], check=False, capture_output=True, text=True, input=given)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def named(expression: str) -> set[str]:
    return set(re.findall(r"\bbraid_\w+", expression))


def expressions() -> list[str]:
    return [target["expr"] for panel in grafana_dashboard()["panels"] for target in panel.get("targets", ())]


def test_only_metrics_that_exist_are_named_and_the_dashboard_has_all_of_them() -> None:
    assert set().union(*(named(rule.expression) for rule in RULES)) <= KNOWN
    assert set().union(*map(named, expressions())) == KNOWN


def test_every_metric_is_in_the_reference() -> None:
    page = text_of(DOCS / "reference" / "metrics.md")
    assert {name for name in KNOWN if f"`{name}`" not in page} == set()


def test_every_rule_is_in_its_runbook_as_it_is() -> None:
    page = text_of(DOCS / "operations" / "runbooks.md").replace("\\|", "|")
    for rule in RULES:
        assert f"(#{rule.runbook})" in page
        assert f"{rule.name}: `{rule.expression}`" in page


def test_prometheus_takes_the_rules_and_what_the_dashboard_asks(
    tmp_path: Path, braid: Callable[..., Answer]
) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(braid("monitor", "rules").out)
    assert f"{len(RULES)} rules found" in promtool("check", "rules", str(file))
    asked = [{"record": f"panel_{number}", "expr": text} for number, text in enumerate(expressions())]
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": asked}]}))
    promtool("check", "rules", str(file))
    assert json.loads(braid("monitor", "dashboard").out) == grafana_dashboard()


def test_no_two_panels_lie_on_each_other() -> None:
    places = [tuple(panel["gridPos"][part] for part in "xywh") for panel in grafana_dashboard()["panels"]]
    cells = [(x + i, y + j) for x, y, w, h in places for i in range(w) for j in range(h)]
    assert len(cells) == len(set(cells))


def series(metric: str, values: str, **labels: str) -> dict[str, str]:
    told = ", ".join(f'{name}="{value}"' for name, value in labels.items())
    return {"series": f"{metric}{{{told}}}", "values": values}


SINK = {"process": "sinks", "query": "sink hits kafka:hits", "kind": "sink"}
HITS = {"view": "hits", "version": "2"}
CASES: dict[str, tuple[list[dict[str, str]], str, bool]] = {
    "a query that retries": ([series("braid_query_running", "0x20", query="q", kind="stream")], "BraidQueryDown", True),
    "a query that is paused": (
        [series("braid_query_running", "0x20", query="q", kind="stream"),
         series("braid_query_paused", "1x20", query="q", kind="stream")], "BraidQueryDown", False,
    ),
    "a sink that is behind": ([series("braid_query_lag_seconds", "0+60x20", **SINK)], "BraidSinkBehind", True),
    "a sink that is paused": (
        [series("braid_query_running", "0x20", **SINK), series("braid_query_paused", "1x20", **SINK)],
        "BraidSinkBehind", False,
    ),
    "a held day": ([series("braid_days", "1x20", view="hits", state="held")], "BraidDayHeld", True),
    "a ledger out of balance": ([series("braid_ledger_balanced", "0x20", source="r")], "BraidLedgerOutOfBalance", True),
    "a ledger that balances": ([series("braid_ledger_balanced", "1x20", source="r")], "BraidLedgerOutOfBalance", False),
    "a bad hour": (
        [series("braid_log_accepted_rows", "0+10x90", source="r"),
         series("braid_log_rejected_rows", "0+10x90", source="r")],
        "BraidQuarantine", True,
    ),
    "answers that are old": (
        [series("braid_serving_epoch_timestamp_seconds", "0x20", **HITS),
         series("braid_query_epoch_timestamp_seconds", "0+60x20", kind="stream", **HITS)],
        "BraidServedEpochBehind", True,
    ),
    "a version that is not served": (
        [series("braid_serving_epoch_timestamp_seconds", "0+60x20", **HITS),
         series("braid_query_epoch_timestamp_seconds", "0+60x20", kind="stream", **HITS),
         series("braid_query_epoch_timestamp_seconds", "0+900x20", kind="stream", view="hits", version="3")],
        "BraidServedEpochBehind", False,
    ),
    "a process that dies": (
        [series("braid_child_restarts_total", "0+1x20", child="engine")], "BraidProcessRestarts", True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_rule_fires_when_it_should(case: str, tmp_path: Path) -> None:
    given, rule, fires = CASES[case]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(prometheus_rules()))
    labels = dict(re.findall(r'(\w+)="([^"]*)"', given[0]["series"]))
    expected: list[dict[str, Any]] = []
    if fires:
        found = next(each for each in RULES if each.name == rule)
        expected = [{"exp_labels": labels | {"severity": found.severity}}]
    # Annotations hold the labels' own text, which is no part of what is tested here.
    rules = prometheus_rules()
    for each in rules["groups"][0]["rules"]:
        each["annotations"] = {}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    test = {"interval": "1m", "input_series": given,
            "alert_rule_test": [{"eval_time": "18m", "alertname": rule, "exp_alerts": expected}]}  # fmt: skip
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": [test]}))
    promtool("test", "rules", str(tmp_path / "test.yml"))


def test_what_is_exposed_is_well_formed() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    query = QueryStatus("sink hits kafka:hits", "sink", "paused", batch=3, batch_ms=4, rows_per_second=1, lag_events=1,
                        lag_seconds=1, state_bytes=1, files=1, epoch=now, watermark=now)  # fmt: skip
    process = ProcessStatus(
        "sinks", os.getpid(), datetime.now(UTC), now, (query,), (ChildStatus("engine", "running"),)
    )
    text = prometheus([process])
    assert {
        name for name in KNOWN if name.startswith(("braid_process", "braid_child", "braid_query"))
    } == set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    promtool("check", "metrics", given=text)
