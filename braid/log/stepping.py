"""What a process makes of the events of one key, in plain Python: the same for what streams and for what lies still.

The result is a function of the key's events in the order of time and identity, and not of how they came: what is not
yet final is held back, and a call is given all the events of one moment.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, NamedTuple

from braid.define.derived.base import ID, TIME
from braid.define.derived.process import TIMER, ProcessedSource, Row
from braid.define.schema import FLOATS, INTEGERS, is_decimal

REFUSED = "_refused"
_DIGITS = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


class Held(NamedTuple):
    """An event of a key: its time in microseconds, who it is, its columns as JSON, how late it was if that is asked."""

    time: int
    identity: str
    line: str
    late: float | None = None


class Drawn(NamedTuple):
    """An event that was made, or the refusal of what step failed on, as the line that ingest reads."""

    id: str
    line: str
    late: float | None


@dataclass(frozen=True)
class Keyed:
    """What is remembered of a key: its state, and the events that are not final yet."""

    state: str | None = None
    held: tuple[Held, ...] = ()
    late: float | None = None


def advance(
    source: ProcessedSource, key: str, known: Keyed, new: Iterable[Held], through: int
) -> tuple[Keyed, list[Drawn]]:
    """Calls step for all that is final: what happened up to `through`, in microseconds, timers included.

    A timer comes after the events of its moment. Copies of an event are one.
    """
    waiting = sorted({(one.time, one.identity): one for one in (*new, *known.held)}.values())
    final = [one for one in waiting if one.time <= through]
    state, late, drawn = _read(source, known.state), known.late, []
    for moment, group in groupby(final, key=lambda one: one.time):
        state, more = _timers(source, key, state, moment - 1, late)
        events = list(group)
        late = max((one for one in (late, *(event.late for event in events)) if one is not None), default=None)
        state, made = _call(source, key, state, events, moment, late, is_timer=False)
        drawn += more + made
    state, more = _timers(source, key, state, through, late)
    kept = tuple(one for one in waiting if one.time > through)
    return Keyed(_written(source, state), kept, late), drawn + more


def wakes(source: ProcessedSource, known: Keyed) -> int | None:
    """When there is something to do again, in microseconds of event time."""
    state = _read(source, known.state)
    timer = state.get(TIMER) if state else None
    moments = [one.time for one in known.held] + ([_micros(timer)] if timer is not None else [])
    return min(moments, default=None)


def _timers(
    source: ProcessedSource, key: str, state: Row | None, through: int, late: float | None
) -> tuple[Row | None, list[Drawn]]:
    """A timer that has come is taken out of the state before step is called, which may set another, later one."""
    drawn: list[Drawn] = []
    while state and (timer := state.get(TIMER)) is not None and (moment := _micros(timer)) <= through:
        state, made = _call(source, key, state | {TIMER: None}, [], moment, late, is_timer=True)
        drawn += made
        if state and (again := state.get(TIMER)) is not None and _micros(again) <= moment:
            # It would be called for ever.
            state = state | {TIMER: None}
    return state, drawn


def _call(
    source: ProcessedSource, key: str, state: Row | None, events: list[Held], moment: int, late: float | None,
    is_timer: bool,
) -> tuple[Row | None, list[Drawn]]:  # fmt: skip
    """One call of step. Where it fails, the state is what it was, and what it was given is refused with the reason."""
    assert source.step is not None, "a process that was read from a document draws nothing"
    who = [one.identity for one in events] or ["timer"]
    given = _read(source, _written(source, state))
    try:
        rows = [row(one.line, source.source.columns) for one in events]
        after, made = source.step(given, rows, _moment(moment) if is_timer else None)
        fitted = None if after is None else _fitted(after, source.state_types, "state")
        types = {name: kind for name, kind in source.columns.items() if name not in (ID, TIME)}
        bodies = [_plain_row(_fitted(one, types, "event"), types) for one in made]
    except Exception as error:
        reason = f"step failed: {type(error).__name__}: {error}"[:500]
        said = {REFUSED: reason, "key": json.loads(key), "events": [json.loads(one.line) for one in events]}
        return state, [_line(source, key, moment, who, -1, said, late)]
    return fitted, [_line(source, key, moment, who, n, body, late) for n, body in enumerate(bodies)]


def _line(
    source: ProcessedSource, key: str, moment: int, who: list[str], n: int, body: Row, late: float | None
) -> Drawn:
    """Who an event is depends on what made it and on what it says: another conclusion is another event."""
    parts = [source.name, key, moment, who, n, body]
    name = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:_DIGITS]
    return Drawn(name, json.dumps({ID: name, TIME: _plain(_moment(moment))} | body), late)


def row(line: str, types: Mapping[str, str]) -> Row:
    """Columns of JSON as Python's own values; what is not there is None."""
    found = json.loads(line)
    return {name: _typed(found.get(name), kind) for name, kind in types.items()}


def _read(source: ProcessedSource, text: str | None) -> Row | None:
    return None if text is None else row(text, source.state_types)


def _written(source: ProcessedSource, state: Row | None) -> str | None:
    return None if state is None else json.dumps(_plain_row(state, source.state_types))


def _plain_row(values: Row, types: Mapping[str, str]) -> Row:
    return {name: _plain(values.get(name)) for name in types}


def _typed(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind.startswith("array<"):
        return [_typed(one, kind[6:-1]) for one in value]
    if kind == "timestamp":
        return datetime.fromisoformat(value).astimezone(UTC)
    if kind == "timestamp_ntz":
        return datetime.fromisoformat(value)
    if kind == "date":
        return date.fromisoformat(value)
    if kind in FLOATS:
        return float(value)
    return Decimal(value) if is_decimal(kind) else value


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Decimal) else value


def _fitted(values: object, types: Mapping[str, str], what: str) -> Row:
    """What step has returned, if it is what was declared: else it is wrong here, and not three steps later."""
    if not isinstance(values, Mapping):
        raise TypeError(f"the {what} is {values!r}, not a dictionary")
    if unknown := values.keys() - types.keys():
        raise ValueError(f"the {what} has {sorted(unknown)[0]!r}, which is not declared")
    for name, kind in types.items():
        _require(values.get(name), kind, f"{what}: {name!r}")
    return {name: _typed(_plain(values.get(name)), kind) for name, kind in types.items()}


def _require(value: Any, kind: str, what: str) -> None:
    if value is None:
        return
    if kind.startswith("array<"):
        if not isinstance(value, list | tuple):
            raise TypeError(f"{what} is {value!r}, not a list")
        for one in value:
            _require(one, kind[6:-1], what)
        return
    wanted = next((types for names, types in _PYTHON if kind in names), (Decimal, int))
    if not isinstance(value, wanted) or isinstance(value, bool) != (kind == "boolean"):
        raise TypeError(f"{what} is {value!r}, not {kind}")
    if kind == "timestamp" and value.tzinfo is None:
        raise ValueError(f"{what} is {value!r}, without a zone")


_PYTHON: tuple[tuple[Any, tuple[type, ...]], ...] = (
    (INTEGERS, (int,)), (FLOATS, (float, int)), (("boolean",), (bool,)), (("string",), (str,)),
    (("timestamp", "timestamp_ntz"), (datetime,)), (("date",), (date,)),
)  # fmt: skip


def _moment(micros: int) -> datetime:
    return _EPOCH + micros * _MICRO


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICRO
