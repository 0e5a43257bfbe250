"""The platform's own alerts for Prometheus and a dashboard for Grafana, made from the metrics that there are."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from braid.runtime.metrics import (
    CHILD_RESTARTS,
    OF_PROCESSES,
    OF_QUERIES,
    PROCESS_REPORTED,
    PROCESS_UP,
    QUERY_EPOCH,
    QUERY_EVENTS,
    QUERY_FILES,
    QUERY_LAG,
    QUERY_LAG_SECONDS,
    QUERY_LATE,
    QUERY_PAUSED,
    QUERY_RUNNING,
    QUERY_STATE,
    Described,
)
from serving_layer.http.metrics import (
    ACCEPTED,
    DAYS,
    LEDGER,
    OF_LAYERS,
    OF_SERVING,
    REJECTED,
    SERVING_EPOCH,
    SERVING_LOOK,
    SERVING_PROBLEMS,
)


class PlatformRule(NamedTuple):
    """An alert about the platform itself; `runbook` is the section that says what to do."""

    name: str
    runbook: str
    expression: str
    lasts: str
    severity: str


def _ratio(part: Described, whole: Described) -> str:
    return f"rate({part.name}[1h]) / rate({whole.name}[1h])"


# Each names the metric itself: one that is renamed or removed takes its rule along.
RULES = (
    PlatformRule(
        "BraidQueryDown", "a-query-does-not-run",
        f'{QUERY_RUNNING.name}{{kind=~"ingest|derive|stream"}} == 0 unless {QUERY_PAUSED.name} == 1', "2m", "critical",
    ),
    PlatformRule(
        "BraidEpochsStandStill", "epochs-stand-still",
        f'time() - {QUERY_EPOCH.name}{{kind="ingest"}} > 300 unless {QUERY_PAUSED.name} == 1', "1m", "critical",
    ),
    PlatformRule(
        "BraidStreamLags", "a-stream-lags", f'{QUERY_LAG_SECONDS.name}{{kind="stream"}} > 30', "5m", "warning"
    ),
    PlatformRule(
        "BraidIngestLags", "ingest-lags", f'{QUERY_LAG.name}{{kind="ingest"}} > 100000', "5m", "warning"
    ),
    PlatformRule(
        "BraidProcessRestarts", "a-process-dies-again-and-again",
        f"increase({CHILD_RESTARTS.name}[10m]) > 2", "0m", "critical",
    ),
    PlatformRule(
        "BraidProcessDown", "a-process-dies-again-and-again",
        f"{PROCESS_UP.name} == 0 or time() - {PROCESS_REPORTED.name} > 60", "2m", "critical",
    ),
    PlatformRule("BraidTailFiles", "a-tail-has-many-files", f"{QUERY_FILES.name} > 3000", "10m", "warning"),
    PlatformRule(
        "BraidDeduplicationState", "the-deduplication-state-grows", f"{QUERY_STATE.name} > 2e9", "10m", "warning"
    ),
    PlatformRule(
        "BraidLateEvents", "late-events-grow", f"{_ratio(QUERY_LATE, QUERY_EVENTS)} > 0.05", "10m", "warning"
    ),
    PlatformRule(
        "BraidLedgerOutOfBalance", "the-ledger-does-not-balance", f"{LEDGER.name} == 0", "1m", "critical"
    ),
    PlatformRule("BraidDayHeld", "a-day-is-held", f'{DAYS.name}{{state="held"}} > 0', "1m", "warning"),
    PlatformRule("BraidDaysStale", "days-are-stale", f'{DAYS.name}{{state="stale"}} > 3', "1d", "warning"),
    PlatformRule(
        "BraidSinkBehind", "a-sink-is-behind",
        f'({QUERY_LAG_SECONDS.name}{{kind="sink"}} > 120 or {QUERY_RUNNING.name}{{kind=~"sink|alert"}} == 0) '
        f"unless on (process, query) {QUERY_PAUSED.name} == 1", "2m", "warning",
    ),
    PlatformRule(
        "BraidQuarantine", "many-records-are-rejected",
        f"delta({REJECTED.name}[1h]) / (delta({ACCEPTED.name}[1h]) + delta({REJECTED.name}[1h])) > 0.2",
        "5m", "warning",
    ),
    PlatformRule(
        "BraidServingStandsStill", "answers-are-old", f"{SERVING_LOOK.name} > 15 or {SERVING_PROBLEMS.name} > 0",
        "2m", "critical",
    ),
    PlatformRule(
        "BraidServedEpochBehind", "answers-are-old",
        f'max by (view, version) ({QUERY_EPOCH.name}{{kind="stream"}}) - on (view, version) group_right '
        f"{SERVING_EPOCH.name} > 120", "2m", "critical",
    ),
)  # fmt: skip

PANELS: dict[str, Sequence[Described]] = {
    "Queries: ingest, streams, sinks, alerts": OF_QUERIES,
    "Processes": OF_PROCESSES,
    "Serving": OF_SERVING,
    "Log and days": OF_LAYERS,
}
UNITS = {
    "timestamp_seconds": "dateTimeAsIso",
    "time_seconds": "dateTimeAsIso",
    "seconds": "s",
    "bytes": "bytes",
}


def prometheus_rules() -> dict[str, Any]:
    """As a file of rules for Prometheus."""
    rules = [
        {
            "alert": rule.name,
            "expr": rule.expression,
            "for": rule.lasts,
            "labels": {"severity": rule.severity},
            "annotations": {
                "summary": rule.runbook.replace("-", " ") + ": {{ $labels }}",
                "runbook": f"docs/operations/runbooks.md#{rule.runbook}",
            },
        }
        for rule in RULES
    ]
    return {"groups": [{"name": "braid", "rules": rules}]}


def grafana_dashboard() -> dict[str, Any]:
    """As Grafana imports it: a panel for each metric, in rows by what it is about."""
    panels: list[dict[str, Any]] = []
    height = 0
    for title, metrics in PANELS.items():
        panels.append(_at({"type": "row", "title": title, "panels": []}, 0, height, 24, 1))
        height += 1
        for place, metric in enumerate(metrics):
            panels.append(_at(_panel(metric), place % 3 * 8, height + place // 3 * 7, 8, 7))
        height += (len(metrics) + 2) // 3 * 7
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    return {
        "title": "Braid",
        "uid": "braid",
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [source]},
        "panels": [panel | {"id": number} for number, panel in enumerate(panels, 1)],
    }


def _panel(metric: Described) -> dict[str, Any]:
    is_counter = metric.kind == "counter"
    expression = f"rate({metric.name}[5m])" if is_counter else metric.name
    unit = next((unit for ending, unit in UNITS.items() if metric.name.endswith(ending)), "short")
    # A moment is a number of seconds, and Grafana counts milliseconds.
    expression = f"{expression} * 1000" if unit == "dateTimeAsIso" else expression
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "type": "timeseries",
        "title": metric.name.removeprefix("braid_").removesuffix("_total").replace("_", " "),
        "description": metric.help,
        "datasource": source,
        "targets": [{"refId": "A", "expr": expression, "datasource": source}],
        "fieldConfig": {"defaults": {"unit": "cps" if is_counter else unit}, "overrides": []},
    }


def _at(panel: dict[str, Any], x: int, y: int, w: int, h: int) -> dict[str, Any]:
    return panel | {"gridPos": {"x": x, "y": y, "w": w, "h": h}}
