"""What the API tells of how right a view is: the newest comparison of each day, read without Spark."""

from typing import Any

from braid.runtime.settings import Settings
from serving_layer.accuracy.report.history import Kept, history


def accuracy_summary(settings: Settings, view_name: str) -> dict[str, Any]:
    """Empty lists, and nothing in the places of numbers, before the first comparison."""
    kept = history(settings, view_name)
    if not kept:
        return {
            "view": view_name, "days": [], "completeness": [], "lateness": None, "what_if": None,
            "recommendation": None, "headline": None, "at": None, "holds": None, "causes": [],
        }  # fmt: skip
    newest = kept[-1].report
    return {
        "view": view_name,
        "at": newest["at"],
        "holds": newest["holds"],
        "headline": newest["headline"],
        "days": _days(kept),
        "completeness": [
            {"after_seconds": point["after_seconds"], "share": point["share"]}
            for point in newest["completeness"]["all"]["points"]
        ],
        "lateness": {
            name: newest["lateness"][name] for name in ("median_seconds", "p99_seconds", "late_events")
        },
        "what_if": {
            "braid": newest["braid"],
            "classic_lambda": newest["what_if"]["classic_lambda"],
            "watermark": newest["what_if"]["watermark"],
        },
        "recommendation": newest["what_if"]["advice"],
        "causes": newest["comparisons"][-1]["causes"],
    }


def _days(kept: list[Kept]) -> list[dict[str, Any]]:
    """Of each day, what was found last; what the stream alone would have served goes before what is published."""
    found: dict[str, dict[str, Any]] = {}
    for one in kept:
        latest: dict[str, dict[str, Any]] = {}
        for comparison in one.report["comparisons"]:
            latest |= {day["day"]: _day(day, comparison["side"]) for day in comparison["days"]}
        for day, said in latest.items():
            before = found.get(day)
            # Once a day is published and collected, only what was found before can tell of the stream.
            if before is None or said["side"] == "stream alone" or before["side"] == "served":
                found[day] = said
    return [found[day] for day in sorted(found)]


def _day(day: dict[str, Any], side: str) -> dict[str, Any]:
    names = ("day", "groups", "equal", "share", "largest_error", "cut", "exceeded")
    return {name: day[name] for name in names} | {"side": side}
