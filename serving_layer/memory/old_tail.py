"""The old part of a tail that is too large for memory: left in its table, and read by day when it is asked for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from braid.define.view import View
from braid.merge.arrow import base_columns, tail_columns
from braid.states import arrow
from braid.tables.delta_rs import Pinned
from serving_layer.answer.numbers import with_late


@dataclass(frozen=True)
class OldDay:
    """How many rows there are of a day, and the epoch of the newest: all rows up to it are there."""

    rows: int
    last: datetime


@dataclass(frozen=True)
class OldTail:
    """Rows up to an epoch that can gain no more."""

    pinned: Pinned
    until: datetime
    days: Mapping[date, OldDay]

    def states(self, view: View, day: date, through: datetime | None) -> pa.Table:
        """The rows of a day beyond its cut, merged over their epochs: few, however long nobody publishes the day."""
        where = (pc.field("day") == pa.scalar(day, pa.date32())) & self._is_old()
        if through is not None:
            where = where & (pc.field("epoch") > pa.scalar(through, arrow.INSTANT))
        rows = self.pinned.rows(tail_columns(view), where)
        merged = arrow.merge(with_late(view), rows.drop_columns("epoch")).select(base_columns(view))
        # Beyond the day's cut as a whole: what a cut covers was not read.
        epoch = pa.repeat(pa.scalar(self.until, rows.schema.field("epoch").type), len(merged))
        return merged.add_column(0, rows.schema.field("epoch"), epoch)

    def uncovered(self, through: Mapping[date, datetime]) -> "OldTail":
        """Without the days whose cut covers all of it."""
        kept = {day: old for day, old in self.days.items() if day not in through or through[day] < old.last}
        return replace(self, days=kept)

    def with_more(self, pinned: Pinned, until: datetime, left: Iterable[pa.Table]) -> "OldTail":
        """After more rows have been left in the table."""
        return OldTail(pinned, until, _counted(self.days, left))

    def _is_old(self) -> Any:
        return pc.field("epoch") <= pa.scalar(self.until, arrow.INSTANT)


def left_in_table(pinned: Pinned, until: datetime) -> OldTail:
    """All rows up to an epoch: only their days and epochs are read."""
    old = OldTail(pinned, until, {})
    batches = pinned.dataset.scanner(columns=["day", "epoch"], filter=old._is_old()).to_batches()
    return replace(old, days=_counted({}, map(pa.Table.from_batches, ([batch] for batch in batches))))


def _counted(days: Mapping[date, OldDay], more: Iterable[pa.Table]) -> dict[date, OldDay]:
    found = dict(days)
    for rows in more:
        by_day = rows.group_by("day").aggregate([("epoch", "count"), ("epoch", "max")])
        for day, count, last in zip(*(column.to_pylist() for column in by_day.columns), strict=True):
            known = found.get(day, OldDay(0, last))
            found[day] = OldDay(known.rows + count, max(known.last, last))
    return found
