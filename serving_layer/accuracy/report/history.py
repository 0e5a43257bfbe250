"""Keeps every comparison of a view in a small Delta table: its trend, and what the API tells of it without Spark."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from braid.runtime.object_store import delta_address, delta_options
from braid.runtime.settings import Settings
from braid.tables.delta_rs import open_table
from serving_layer.accuracy.report.values import Report, headline, streamed

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Kept:
    """One comparison of the past: in short, and as a whole."""

    at: datetime
    version: int
    cut: datetime
    holds: bool
    groups: int
    equal: int
    unexplained: int
    largest_error: float
    report: dict[str, Any]

    @property
    def share(self) -> float:
        return self.equal / self.groups if self.groups else 1.0


def kept_schema() -> "pa.Schema":
    """The columns of the table of comparisons."""
    import pyarrow as pa

    instant = pa.timestamp("us", "UTC")
    return pa.schema(
        [
            ("at", instant), ("version", pa.int64()), ("cut", instant), ("holds", pa.bool_()), ("groups", pa.int64()),
            ("equal", pa.int64()), ("unexplained", pa.int64()), ("largest_error", pa.float64()),
            ("report", pa.string()),
        ]
    )  # fmt: skip


def keep(settings: Settings, report: Report) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    found = streamed(report)
    row = {
        "at": report.at, "version": report.version, "cut": report.cut, "holds": report.holds, "groups": found.groups,
        "equal": found.equal, "unexplained": sum(one.unexplained for one in report.comparisons),
        "largest_error": max((day.largest_error for day in found.days), default=0.0),
        "report": json.dumps(document(report)),
    }  # fmt: skip
    place, rows = _table(settings, report.view), pa.Table.from_pylist([row], kept_schema())
    write_deltalake(delta_address(place), rows, mode="append", storage_options=delta_options(place))


def history(settings: Settings, view: str) -> list[Kept]:
    """Oldest first; nothing before the first comparison."""
    table = open_table(_table(settings, view))
    if table is None:
        return []
    rows = table.to_pyarrow_table().sort_by("at").to_pylist()
    return [Kept(**row | {"report": json.loads(row["report"])}) for row in rows]


def trend(kept: Sequence[Kept]) -> list[float | None]:
    """By how much the share of equal groups has changed since the comparison before; None for the first."""
    shares = [one.share for one in kept]
    changes: list[float | None] = [now - before for before, now in pairwise(shares)]
    return [None, *changes] if kept else []


def _table(settings: Settings, view: str) -> str:
    return settings.location("accuracy", view)


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


def document(report: Report) -> dict[str, Any]:
    """All of a report, with what follows from it."""
    plain: dict[str, Any] = _plain(report)
    return {"headline": headline(report), "holds": report.holds} | plain


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        own = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return own | {name: _plain(getattr(value, name)) for name in _derived(type(value))}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return _atom(value)


def _atom(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    # JSON has no word for what is not a number, or has no end.
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Decimal) else value


def _derived(kind: type) -> tuple[str, ...]:
    """What a reader of the document should not have to work out again."""
    return tuple(
        name for name in ("share", "largest_error", "holds") if isinstance(vars(kind).get(name), property)
    )
