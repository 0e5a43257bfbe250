"""Numbers with what is known about them: whether they are final, and how much of them the tail holds."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from braid.finality import watermark
from braid.measures import Measure
from braid.measures.counts import Count
from braid.states import EVENTS, arrow
from braid.view import View
from braid.view_tables import LATE
from serving_layer.reader import IN_TAIL, Snapshot, served_states

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


def numbers(snapshot: Snapshot, grain: str | None = None) -> pa.Table:
    """Keys, window_start and window_end (but for all time), measures, status and the columns of KNOWN."""
    view = snapshot.view
    names = {_free(view, name): name for name in KNOWN}
    asked = _also_measuring(view, {free: KNOWN[name] for free, name in names.items()})
    found = arrow.present(asked, served_states(snapshot), grain)
    found = found.rename_columns([names.get(name, name) for name in found.column_names])
    return found.append_column(STATUS, statuses(found, final_until(snapshot)))


def final_until(snapshot: Snapshot) -> datetime | None:
    """Windows that end at or before it are final. While history is being read, none is: numbers are incomplete."""
    mark = snapshot.mark
    return None if mark is None or mark.replaying else watermark(snapshot.view, mark.seen)


def statuses(found: pa.Table, until: datetime | None) -> pa.Array:
    """final, provisional, or revised: final, and changed by an event that came after that."""
    if until is None or "window_end" not in found.column_names:
        return pa.repeat(pa.scalar("provisional"), len(found))
    final = pc.less_equal(found["window_end"], pa.scalar(until, arrow.INSTANT))
    revised = pc.greater(found[LATE], 0)
    return pc.if_else(final, pc.if_else(revised, "revised", "final"), "provisional")


def with_late(view: View) -> View:
    """The view as its tables store it: with the late events beside its own states."""
    return _also_measuring(view, {_free(view, LATE): KNOWN[LATE]})


def _also_measuring(view: View, more: dict[str, Measure]) -> View:
    return replace(view, measures={**view.measures, **more})


def _free(view: View, name: str) -> str:
    """A name that a measure can have, and no key or measure of the view has."""
    taken = {other.lower() for other in (*view.keys, *view.measures)}
    free = name.strip("_")
    while free in taken:
        free += "_"
    return free
