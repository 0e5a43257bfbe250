"""Keeps every comparison of a view in a small Delta table, so that a trend can be seen."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from braid.runtime.object_store import delta_address, delta_options
from braid.runtime.settings import Settings
from braid.tables.delta_rs import open_table
from serving_layer.accuracy.report.documents import document
from serving_layer.accuracy.report.headline import streamed
from serving_layer.accuracy.report.values import Report

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
