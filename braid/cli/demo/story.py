"""The demo's story: live numbers, three days backfilled, late events restated, history replayed, accuracy reported."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from braid.cli.demo.stage import Stage, step
from examples.stage.checks import Check, equal

VIEW, SOURCE, DAG = "page_traffic", "requests", "daily_batch"
FIRST, LAST, LATE_DAY = "2024-03-08", "2024-03-10", "2024-03-09"
MESS = ("--late", "0.2", "--duplicates", "0.05", "--malformed", "0.03", "--out-of-order", "0.1")
LATE_EVENTS = 500

PageDays = dict[tuple[str, str], tuple[int, int | None]]


def story(stage: Stage, events: int) -> list[Check]:
    """Plays all of it; each act ends in checks."""
    checks = []
    for act in (_live, _backfill, _restate, _replay, _report):
        checks += act(stage, events)
    return checks


def _live(stage: Stage, events: int) -> list[Check]:
    with step(f"sending {events:,} events, of which some are late, twice, malformed or out of order"):
        truth = _send(stage, "truth.json", "--events", str(events), "--days", "3", "--start", FIRST, *MESS)
    want = page_days([truth])
    with step("streaming them into live numbers"):
        stage.wait(lambda: served(stage) == want, "the streams serve what was sent")
        stage.wait(lambda: _books(stage).get("balanced") is not None, "the books are closed")
    books = _books(stage)
    reasons: Counter[str] = Counter()
    for entry in books["quarantine"]:
        reasons[entry["reason"].partition(":")[0]] += entry["events"]
    return [
        _pages("live: hits and bytes of each page and day", served(stage), want),
        equal("consumed by ingest", books["consumed"], truth["sent"]),
        equal("accepted", books["accepted"], truth["accepted"]),
        equal("rejected, by reason", dict(reasons), truth["rejected_by_reason"]),
        equal("duplicates dropped", books["duplicates"], truth["duplicates"]),
        equal("the ledger balances", books["balanced"], True),
    ]


def _backfill(stage: Stage, _: int) -> list[Check]:
    from infra.airflow.api import Api
    from infra.airflow.files import LocalAirflow

    api = Api(LocalAirflow(stage.home / "airflow"))
    with step(f"backfilling {FIRST} to {LAST} with Airflow, {api.airflow.address}"):
        api.unpause(DAG)
        # A DAG that may run begins with yesterday, of which this story knows nothing.
        stage.wait(lambda: bool(_runs(api, "scheduled")), "Airflow has made its first run")
        for run in _runs(api, "scheduled"):
            api.ask("PATCH", f"/dags/{DAG}/dagRuns/{quote(run)}", {"state": "success"})
        bounds = {"from_date": f"{FIRST}T00:00:00Z", "to_date": f"{LAST}T00:00:00Z"}
        api.ask("POST", "/backfills", {"dag_id": DAG, "max_active_runs": 2, **bounds})

        def over() -> bool:
            runs = _runs(api, "backfill")
            return len(runs) == 3 and set(runs.values()) <= {"success", "failed"}

        stage.wait(over, "the days are computed", 900)
    states = Counter(_runs(api, "backfill").values())
    stage.wait(lambda: _base_share(stage, FIRST, "2024-03-11") == 1.0, "serving has the published days", 60)
    return [
        equal("days that Airflow computed", dict(states), {"success": 3}),
        equal("share of them in the base", _base_share(stage, FIRST, "2024-03-11"), 1.0),
        _pages("after the backfill: the same numbers", served(stage), page_days(_truths(stage))),
    ]


def _restate(stage: Stage, _: int) -> list[Check]:
    with step(f"{LATE_EVENTS} events of {LATE_DAY} come after it was computed"):
        _send(
            stage,
            "late.json",
            "--events",
            str(LATE_EVENTS),
            "--days",
            "1",
            "--start",
            LATE_DAY,
            "--seed",
            "2",
        )
        want = page_days(_truths(stage))
        stage.wait(lambda: served(stage) == want, "they are served")
        stage.wait(lambda: _states(stage).get(LATE_DAY) == "stale", "the day is known to be stale", 60)
        before = served(stage)
    with step("restating the day"):
        stage.run("batch", "run", "--stale")
        stage.wait(lambda: _states(stage).get(LATE_DAY) == "up to date", "the day is up to date", 60)
    return [
        _pages("late events count before the restatement", before, want),
        _pages("and after it, once", served(stage), want),
    ]


def _replay(stage: Stage, _: int) -> list[Check]:
    with step("replaying history through the streaming code (Kappa)"):
        version = json.loads(stage.run("kappa", "replay", VIEW, "--json"))
    with step("comparing the replay with what is served and with the log"):
        verdict = json.loads(stage.run("kappa", "compare", VIEW, "--json"))
    return [equal(f"version {version['version']} is equal to both", verdict["holds"], True)]


def _report(stage: Stage, _: int) -> list[Check]:
    with step("reporting how right the live numbers are, how soon, and why they differ"):
        report = stage.home / "accuracy.html"
        found = json.loads(stage.run("compare", VIEW, "--json", "--html", str(report)))
    return [
        equal("differences that nothing explains", sum(c["unexplained"] for c in found["comparisons"]), 0),
        equal("the report is written", report.is_file(), True),
    ]


def served(stage: Stage) -> PageDays:
    """(day, page) -> (hits, bytes), as the API answers now."""
    answer = stage.get(f"/views/{VIEW}", grain="1 day", limit=100_000) or {"rows": []}
    return {(row["window_start"][:10], row["url"]): (row["hits"], row["bytes"]) for row in answer["rows"]}


def page_days(truths: Iterable[dict[str, Any]]) -> PageDays:
    """The same, as the generator's own records say."""
    found: PageDays = {}
    for row in (row for truth in truths for row in truth[VIEW]):
        hits, size = found.get((row["day"], row["url"]), (0, None))
        sizes = [each for each in (size, row["bytes"]) if each is not None]
        found[row["day"], row["url"]] = hits + row["hits"], sum(sizes) if sizes else None
    return found


def _send(stage: Stage, name: str, *options: str) -> dict[str, Any]:
    file = stage.home / name
    stage.run("produce", *options, "--truth", str(file))
    return _read(file)


def _truths(stage: Stage) -> list[dict[str, Any]]:
    return [_read(file) for name in ("truth.json", "late.json") if (file := stage.home / name).exists()]


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _books(stage: Stage) -> dict[str, Any]:
    return stage.get(f"/ledger/{SOURCE}") or {}


def _base_share(stage: Stage, start: str, end: str) -> float:
    answer = stage.get(f"/views/{VIEW}/provenance", start=start, end=end)
    return float(answer["base"]["share"]) if answer else 0.0


def _states(stage: Stage) -> dict[str, str]:
    answer = stage.get(f"/days/{VIEW}") or {"days": []}
    return {day["day"]: day["state"] for day in answer["days"]}


def _runs(api: Any, kind: str) -> dict[str, str]:
    runs = api.ask("GET", f"/dags/{DAG}/dagRuns?limit=100")["dag_runs"]
    return {run["dag_run_id"]: run["state"] for run in runs if run["run_type"] == kind}


def _pages(name: str, found: PageDays, expected: PageDays) -> Check:
    equal = sum(found.get(key) == numbers for key, numbers in expected.items())
    return Check(
        name,
        found == expected,
        f"{equal:,} of {len(found):,} page-days equal",
        f"{len(expected):,} page-days",
    )
