"""Presents states as numbers, and says of each whether it is final and how much of it is in the tail."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from braid.define.view import View
from braid.define.windows import Session, all_time
from braid.measures import Measure
from braid.measures.aggregates import Count
from braid.merge.arrow import IN_TAIL, Snapshot, served_states
from braid.states import EVENTS, arrow
from braid.states.calendar import watermark
from braid.tables.commits import TailCommit
from braid.tables.view_tables import LATE, bounds

# Names that begin with an underscore are nobody else's: a view of web requests has a key called "status".
STATUS, EVENT_COUNT = "_status", "_events"


@dataclass(frozen=True)
class Late(Count):
    """Of the events, those that came after their window was final."""

    state_kind: ClassVar[str] = LATE


@dataclass(frozen=True)
class InTail(Count):
    """Of the events, those that the base does not cover."""

    state_kind: ClassVar[str] = IN_TAIL


# What is known about a number is merged as the number is, whatever the window: these are measures too.
KNOWN: dict[str, Measure] = {LATE: Late(), IN_TAIL: InTail(), EVENT_COUNT: EVENTS}


def numbers(snapshot: Snapshot, grain: str | None = None, keys: tuple[str, ...] | None = None) -> pa.Table:
    """Keys, window_start and window_end (but for all time), measures, status and the columns of KNOWN.

    With other keys than the view's own, the numbers of all that have them.
    """
    view = snapshot.view
    found = _presented(view, served_states(snapshot), view.keys if keys is None else keys, grain)
    return found.append_column(STATUS, statuses(found, final_until(view, snapshot.mark)))


def columns_of_numbers(snapshot: Snapshot) -> pa.Schema:
    """The columns of `numbers` that are the view's own: keys, window, measures."""
    return pa.schema([field for field in numbers(snapshot).schema if field.name not in (*KNOWN, STATUS)])


def totals(
    snapshot: Snapshot, start: datetime | None, end: datetime | None, keys: tuple[str, ...]
) -> pa.Table:
    """Keys, measures and the columns of KNOWN, of everything that begins in [start, end): each event once."""
    view, states = snapshot.view, served_states(snapshot)
    if isinstance(view.window, Session):
        # What begins when is only known of a session that is whole.
        states = arrow.merge(_also_measuring(view, view.keys, LATE, IN_TAIL), states, by=())
    states = begun_in(states, bounds(view)[0], start, end)
    return _presented(replace(view, window=all_time()), states, keys)


def begun_in(rows: pa.Table, column: str, start: datetime | None, end: datetime | None) -> pa.Table:
    for bound, keeps in ((start, pc.greater_equal), (end, pc.less)):
        if bound is not None:
            rows = rows.filter(keeps(rows[column], pa.scalar(bound, arrow.INSTANT)))
    return rows


def _presented(view: View, states: pa.Table, keys: tuple[str, ...], grain: str | None = None) -> pa.Table:
    names = {_free(view, name): name for name in KNOWN}
    found = arrow.present(_also_measuring(view, keys, *KNOWN), states, grain)
    return found.rename_columns([names.get(name, name) for name in found.column_names])


def final_until(view: View, mark: TailCommit | None) -> datetime | None:
    """Windows that end at or before it are final. While history is being read, none is: numbers are incomplete."""
    return None if mark is None or mark.replaying else watermark(view, mark.seen)


def statuses(found: pa.Table, until: datetime | None) -> pa.Array:
    """final, provisional, or revised: final, and changed by an event that came after that."""
    if until is None or "window_end" not in found.column_names:
        return pa.repeat(pa.scalar("provisional"), len(found))
    final = pc.less_equal(found["window_end"], pa.scalar(until, arrow.INSTANT))
    revised = pc.greater(found[LATE], 0)
    return pc.if_else(final, pc.if_else(revised, "revised", "final"), "provisional")


def with_late(view: View) -> View:
    """The view as its tables store it: with the late events beside its own states."""
    return _also_measuring(view, view.keys, LATE)


@lru_cache
def _also_measuring(view: View, keys: tuple[str, ...], *known: str) -> View:
    """Kept, because a view is checked from top to bottom whenever one is made."""
    more = {_free(view, name): KNOWN[name] for name in known}
    return replace(view, keys=keys, measures={**view.measures, **more}, expect=())


def _free(view: View, name: str) -> str:
    """A name that a measure can have, and no key or measure of the view has."""
    taken = {other.lower() for other in (*view.keys, *view.measures)}
    free = name.strip("_")
    while free in taken:
        free += "_"
    return free
