"""From a micro-batch's events to rows of a tail: by Spark for history, and for several views at once at the live edge.

What is fixed is what costs at the live edge: a job for each view, Spark's writer, and code that Spark compiles anew
because a number in it has changed. So all views of a batch are one job, which gives their states to Python, and
whether a state is late, which changes with every batch, is said there.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation

from braid.define.schema import quote
from braid.define.view import View
from braid.log.lookups import LookupTables
from braid.states import EVENTS
from braid.states.arrow import INSTANT
from braid.states.calendar import late_before, watermark
from braid.states.spark import preparation
from braid.states.spark_calendar import timestamp
from braid.tables.view_tables import LATE, bounds, tail_columns
from speed_layer.stream.counts import observed

NEWEST = "_newest"
_VIEW = "_view"


@dataclass(frozen=True)
class LiveBatch:
    """One view's part of a micro-batch at the live edge: a frame, and its states when Spark has computed them.

    Without either it has no events, or, where it `is_large`, is left to Spark from reading to writing.
    """

    lookups: LookupTables
    frame: DataFrame | None = None
    states: pa.Table | None = None
    is_large: bool = False


@dataclass
class StatesOf:
    """How the events of one view become rows of its tail. What Spark is to compute is put together once."""

    view: View
    replay_cut: datetime | None
    _by_spark: Callable[[DataFrame], DataFrame] | None = None
    _for_arrow: Callable[[DataFrame], DataFrame] | None = None
    _observed: tuple[list[Column], list[Column]] = field(default_factory=lambda: ([], []))

    def by_spark(
        self, events: DataFrame, seen: datetime | None
    ) -> tuple[DataFrame, tuple[Observation, Observation]]:
        """Rows of the tail for Spark to write, and who counts them on the way; `seen` is the largest event time."""
        if self._by_spark is None:
            self._by_spark = preparation(self.view, events.schema, extra=("_epoch",))
            self._observed = observed(self.view, self.replay_cut)
        in_events, in_states = Observation(), Observation()
        prepared = self._by_spark(events.observe(in_events, *self._observed[0]))
        rows = prepared.selectExpr(*self._tail_columns(seen))
        return rows.observe(in_states, *self._observed[1]), (in_events, in_states)

    def for_arrow(self, events: DataFrame) -> DataFrame:
        """States with all that `in_arrow` needs: the same plan at every batch."""
        if self._for_arrow is None:
            self._for_arrow = preparation(self.view, events.schema, extra=("_epoch",), newest=(NEWEST,))
        return self._for_arrow(events)

    def in_arrow(self, states: pa.Table, seen: datetime | None) -> pa.Table:
        """Rows of the tail from states that Spark has computed."""
        border, events = late_before(self.view, watermark(self.view, seen)), states[EVENTS.state_name]
        is_late = pa.array([False] * len(states), pa.bool_()) if border is None else pc.less(
            states[bounds(self.view)[-1]], pa.scalar(border, INSTANT)
        )  # fmt: skip
        if self.replay_cut is not None:
            is_late = pc.and_(is_late, pc.greater(states["_epoch"], pa.scalar(self.replay_cut, INSTANT)))
        late = pc.if_else(pc.fill_null(is_late, False), events, pa.scalar(0, pa.int64()))
        computed = {"epoch": states["_epoch"], LATE: late}
        names = tail_columns(self.view)
        return pa.table({name: computed[name] if name in computed else states[name] for name in names})

    def _tail_columns(self, seen: datetime | None) -> list[str]:
        """The tail's columns as SQL over prepared states; late events are counted.

        Late are events that came after their window was final; history that is replayed is not judged.
        """
        border = late_before(self.view, watermark(self.view, seen))
        is_late = f"{bounds(self.view)[-1]} < {timestamp(border)}" if border is not None else "false"
        if self.replay_cut is not None:
            is_late += f" and _epoch > {timestamp(self.replay_cut)}"
        computed = {"epoch": "_epoch", LATE: f"if({is_late}, {EVENTS.state_name}, 0L)"}
        return [
            f"{computed[name]} as {name}" if name in computed else quote(name)
            for name in tail_columns(self.view)
        ]


_Place = tuple[str, int]


@dataclass(frozen=True)
class Union:
    """Several frames, of whatever columns, as one that a single Spark job computes.

    Each column of a frame takes the next place that has its type: all of them together are as wide as the widest.
    """

    frame: DataFrame
    places: Sequence[Sequence[tuple[str, str, int]]]
    names: dict[_Place, str]

    @classmethod
    def of(cls, frames: Sequence[DataFrame]) -> "Union":
        if len(frames) == 1:
            return cls(frames[0], (), {})
        places = [_places(frame) for frame in frames]
        widest = reduce(
            lambda known, found: known | found, (Counter(kind for _, kind, _ in one) for one in places)
        )
        every = [(kind, number) for kind, most in widest.items() for number in range(most)]
        names = {place: f"_{index}" for index, place in enumerate(every)}
        packed = [
            frame.selectExpr(f"{index} as {_VIEW}", *_packed(places[index], names))
            for index, frame in enumerate(frames)
        ]
        return cls(reduce(DataFrame.union, packed), places, names)

    def split(self, rows: pa.Table) -> list[pa.Table]:
        """The rows of each frame, as it would have given them alone."""
        if not self.places:
            return [rows]
        return [_unpacked(rows, index, places, self.names) for index, places in enumerate(self.places)]


def _places(frame: DataFrame) -> list[tuple[str, str, int]]:
    """(name, type, how many of that type come before it) of each column."""
    seen: Counter[str] = Counter()
    found = []
    for name, kind in frame.dtypes:
        found.append((name, kind, seen[kind]))
        seen[kind] += 1
    return found


def _packed(places: Sequence[tuple[str, str, int]], names: dict[_Place, str]) -> list[str]:
    known = {(kind, number): name for name, kind, number in places}
    return [
        f"{quote(known[place]) if place in known else f'cast(null as {place[0]})'} as {packed}"
        for place, packed in names.items()
    ]


def _unpacked(
    rows: pa.Table, index: int, places: Sequence[tuple[str, str, int]], names: dict[_Place, str]
) -> pa.Table:
    mine = rows.filter(pc.equal(rows[_VIEW], pa.scalar(index, rows.schema.field(_VIEW).type)))
    return pa.table({name: mine[names[kind, number]] for name, kind, number in places})


def newest_of(states: pa.Table) -> int | None:
    """The largest event time of a batch in microseconds; None of one without events."""
    newest: int | None = pc.max(states[NEWEST].cast(pa.int64())).as_py()
    return newest
