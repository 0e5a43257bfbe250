"""Plays the demo's story: live numbers, days backfilled, late events restated, history replayed, accuracy reported."""

import json
import shutil
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from braid.cli.demo.gallery import check_table
from braid.cli.demo.own_platform import DemoPlatform, make_platform, playing, step
from braid.cli.demo.sent import VIEW, PageDays, lateness_checks, page_days, pages_check, true_arrivals
from braid.cli.output import console, errors, failed, print_json, say
from braid.examples.stage.checks import TruthCheck, equal
from braid.infra.airflow.api import Api
from braid.infra.airflow.files import LocalAirflow
from braid.runtime.settings import current_settings
from braid.runtime.signals import stop_on_signals

SOURCE, DAG = "requests", "daily_batch"
FIRST, LAST, LATE_DAY = "2024-03-08", "2024-03-10", "2024-03-09"
MESS = (
    "--late",
    "0.2",
    "--duplicates",
    "0.05",
    "--malformed",
    "0.03",
    "--out-of-order",
    "0.1",
    "--arrived-after",
    "0s",
)
LATE_EVENTS, LATER = 500, "3 days"


def play_story(events: int, as_json: bool) -> None:
    """Plays it and prints what came of it; exit code 1 if a number is not the true one."""
    started = time.monotonic()
    home = current_settings().local_home() / "demo"
    shutil.rmtree(home, ignore_errors=True)
    platform = make_platform(home)
    with playing(platform):
        errors.print(f"  the dashboard: {platform.api}/", highlight=False)
        checks = _acts(platform, events)
        ok = all(check.ok for check in checks)
        if as_json:
            print_json({"ok": ok, "checks": [asdict(check) for check in checks]})
        else:
            console.print(check_table(checks))
            say(
                f"{time.monotonic() - started:.0f} seconds; the report on accuracy: {platform.home / 'accuracy.html'}"
            )
            if sys.stdout.isatty() and sys.stdin.isatty():
                say(f"The dashboard is at {platform.api}/ until Ctrl-C.")
                with stop_on_signals() as stop:
                    stop.wait()
    if not ok:
        raise failed(as_json, "the demo's numbers are not the true ones: see the table.")


def _acts(platform: DemoPlatform, events: int) -> list[TruthCheck]:
    """Plays all of it; each act ends in checks."""
    checks = []
    for act in (_live, _backfill, _restate, _replay, _report):
        checks += act(platform, events)
    return checks


def _live(platform: DemoPlatform, events: int) -> list[TruthCheck]:
    with step(f"sending {events:,} events, of which some are late, twice, malformed or out of order"):
        truth = _send(platform, "truth.json", "--events", str(events), "--days", "3", "--start", FIRST, *MESS)
    want = page_days([truth])
    with step("streaming them into live numbers"):
        platform.wait(
            lambda: served(platform) == want,
            "the streams to serve what was sent",
            numbers=lambda: _how_many(platform, want),
        )
        platform.wait(
            lambda: _books(platform).get("balanced") is not None,
            "the books to be closed",
            numbers=lambda: f"{_books(platform).get('rows', 0):,} rows in the log",
        )
    books = _books(platform)
    reasons: Counter[str] = Counter()
    for entry in books["quarantine"]:
        reasons[entry["reason"].partition(":")[0]] += entry["events"]
    return [
        pages_check("live: hits and bytes of each page and day", served(platform), want),
        equal("consumed by ingest", books["consumed"], truth["sent"]),
        equal("accepted", books["accepted"], truth["accepted"]),
        equal("rejected, by reason", dict(reasons), truth["rejected_by_reason"]),
        equal("duplicates dropped", books["duplicates"], truth["duplicates"]),
        equal("the ledger balances", books["balanced"], True),
    ]


def _backfill(platform: DemoPlatform, _: int) -> list[TruthCheck]:
    api = Api(LocalAirflow(platform.home / "airflow"))
    with step(f"backfilling {FIRST} to {LAST} with Airflow, {api.airflow.address}"):
        api.unpause(DAG)
        # A DAG that may run begins with yesterday, of which this story knows nothing.
        platform.wait(lambda: bool(_runs(api, "scheduled")), "Airflow to make its first run")
        for run in _runs(api, "scheduled"):
            api.ask("PATCH", f"/dags/{DAG}/dagRuns/{quote(run)}", {"state": "success"})
        bounds = {"from_date": f"{FIRST}T00:00:00Z", "to_date": f"{LAST}T00:00:00Z"}
        api.ask("POST", "/backfills", {"dag_id": DAG, "max_active_runs": 2, **bounds})

        states: Counter[str] = Counter()

        def over() -> bool:
            states.clear()
            states.update(_runs(api, "backfill").values())
            return states.total() == 3 and set(states) <= {"success", "failed"}

        def days() -> str:
            return ", ".join(f"{number} {state}" for state, number in sorted(states.items())) or "none yet"

        platform.wait(over, "the days to be computed", 900, days)
    platform.wait(
        lambda: _base_share(platform, FIRST, "2024-03-11") == 1.0, "serving to have the published days", 60
    )
    return [
        equal("days that Airflow computed", dict(states), {"success": 3}),
        equal("share of them in the base", _base_share(platform, FIRST, "2024-03-11"), 1.0),
        pages_check("after the backfill: the same numbers", served(platform), page_days(_truths(platform))),
    ]


def _restate(platform: DemoPlatform, _: int) -> list[TruthCheck]:
    with step(f"{LATE_EVENTS} events of {LATE_DAY} come after it was computed"):
        _send(
            platform,
            "late.json",
            "--events",
            str(LATE_EVENTS),
            "--days",
            "1",
            "--start",
            LATE_DAY,
            "--seed",
            "2",
            "--arrived-after",
            LATER,
        )
        want = page_days(_truths(platform))
        platform.wait(
            lambda: served(platform) == want,
            "them to be served",
            numbers=lambda: _how_many(platform, want),
        )
        platform.wait(lambda: _states(platform).get(LATE_DAY) == "stale", "the day to be known as stale", 60)
        before = served(platform)
    with step("restating the day"):
        platform.run("batch", "run", "--stale")
        platform.wait(lambda: _states(platform).get(LATE_DAY) == "up to date", "the day to be up to date", 60)
    return [
        pages_check("late events count before the restatement", before, want),
        pages_check("and after it, once", served(platform), want),
    ]


def _replay(platform: DemoPlatform, _: int) -> list[TruthCheck]:
    with step("replaying history through the streaming code (Kappa)"):
        version = json.loads(platform.run("kappa", "replay", VIEW, "--json"))
    with step("comparing the replay with what is served and with the log"):
        verdict = json.loads(platform.run("kappa", "compare", VIEW, "--json"))
    return [equal(f"version {version['version']} is equal to both", verdict["holds"], True)]


def _report(platform: DemoPlatform, _: int) -> list[TruthCheck]:
    with step("reporting how right the live numbers are, how soon, and why they differ"):
        report = platform.home / "accuracy.html"
        found = json.loads(platform.run("compare", VIEW, "--json", "--html", str(report)))
    return [
        equal("differences that nothing explains", sum(c["unexplained"] for c in found["comparisons"]), 0),
        equal("the report is written", report.is_file(), True),
        *lateness_checks(found, true_arrivals(*_truths(platform))),
    ]


def served(platform: DemoPlatform) -> PageDays:
    """(day, page) -> (hits, bytes), as the API answers now."""
    answer = platform.get(f"/views/{VIEW}", grain="1 day", limit=100_000) or {"rows": []}
    return {(row["window_start"][:10], row["url"]): (row["hits"], row["bytes"]) for row in answer["rows"]}


def _send(platform: DemoPlatform, name: str, *options: str) -> dict[str, Any]:
    file = platform.home / name
    platform.run("produce", *options, "--truth", str(file))
    return _read(file)


def _truths(platform: DemoPlatform) -> list[dict[str, Any]]:
    return [_read(file) for name in ("truth.json", "late.json") if (file := platform.home / name).exists()]


def _how_many(platform: DemoPlatform, want: PageDays) -> str:
    hits = (sum(one for one, _ in numbers.values()) for numbers in (served(platform), want))
    return "{:,} of {:,} hits are served".format(*hits)


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _books(platform: DemoPlatform) -> dict[str, Any]:
    return platform.get(f"/ledger/{SOURCE}") or {}


def _base_share(platform: DemoPlatform, start: str, end: str) -> float:
    answer = platform.get(f"/views/{VIEW}/provenance", start=start, end=end)
    return float(answer["base"]["share"]) if answer else 0.0


def _states(platform: DemoPlatform) -> dict[str, str]:
    answer = platform.get(f"/days/{VIEW}") or {"days": []}
    return {day["day"]: day["state"] for day in answer["days"]}


def _runs(api: Any, kind: str) -> dict[str, str]:
    try:
        runs = api.ask("GET", f"/dags/{DAG}/dagRuns?limit=100")["dag_runs"]
    except TimeoutError:
        # Busy, as a machine with few cores is while days are computed: whoever waits asks again.
        return {}
    return {run["dag_run_id"]: run["state"] for run in runs if run["run_type"] == kind}
