"""What leaves for a sink: the difference between what it holds and what is served, as records with a revision."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

import pyarrow as pa

from braid.define.sinks import Emit
from braid.define.view import View
from serving_layer.answer.json_values import plain
from serving_layer.answer.numbers import STATUS
from serving_layer.memory.changes import CHANGE, Row

VERSION, KEYS = "_version", "_keys"
BOUNDS = ("window_start", "window_end")

# Row id -> a row as people read it (keys, window, numbers), with its status, the version that it is of and, where that
# is known, the names of its keys: another version may have others.
State = dict[str, Row]


@dataclass(frozen=True)
class Step:
    """Some rows as a sink has them, and as they are served now; all others are the same on both sides."""

    before: State
    after: State


@dataclass(frozen=True)
class Held:
    """What a sink holds, and the newest revision that it was ever given."""

    state: State
    revision: int


@dataclass(frozen=True)
class Delivery:
    """Changes that belong together. A row that is withdrawn is no more."""

    view: View
    schema: pa.Schema
    emit: Emit
    version: int
    revision: int
    changed: State
    withdrawn: State
    complete: datetime | None = None
    position: Mapping[str, Any] = field(default_factory=dict)
    epoch: datetime | None = None
    final_until: datetime | None = None

    @property
    def is_empty(self) -> bool:
        return not self.changed and not self.withdrawn

    def records(self) -> Iterator[dict[str, Any]]:
        """Withdrawn first: what took a row's place comes after it."""
        for rows, change in ((self.withdrawn, "withdrawn"), (self.changed, "changed")):
            for row in rows.values():
                yield self.record(row, change)

    def record(self, row: Row, change: str) -> dict[str, Any]:
        """A change as programs read it, alone and in any order: the newest revision of a row is what is served."""
        view = self.view
        keys = row.get(KEYS, view.keys)
        return {
            "view": view.name,
            "version": self.version,
            "revision": self.revision,
            "change": change,
            "status": row[STATUS],
            "complete": plain(self.complete, view.source.zone),
            **{name: row.get(name) for name in BOUNDS},
            "keys": {key: row[key] for key in keys},
            "numbers": {
                name: value
                for name, value in row.items()
                if name not in (*keys, *BOUNDS, STATUS, VERSION, KEYS, CHANGE)
            },
        }


class Leaving(Protocol):
    """What says where rows go and which of them."""

    @property
    def name(self) -> str: ...

    @property
    def emit(self) -> Emit: ...


class Target(Protocol):
    """A place that numbers go to; whatever goes wrong there is an error, and what was delivered stays."""

    def held(self, view: View) -> Held:
        """What is there now, with what an interrupted delivery left brought to its end."""

    def take(self, delivery: Delivery) -> None:
        """All of it, or an error after which `held` tells how far it came."""

    def close(self) -> None: ...


def row_id(window_start: Any, keys: Mapping[str, Any]) -> str:
    """The same for a row whatever its numbers, its version, and the order of its keys."""
    text = json.dumps([window_start, dict(keys)], sort_keys=True)
    return str(UUID(hashlib.sha256(text.encode()).hexdigest()[:32]))


def row_of(record: Mapping[str, Any]) -> tuple[str, Row]:
    """A record as the row that it says, and the row's id."""
    bounds = {name: record[name] for name in BOUNDS if record[name] is not None}
    row = record["keys"] | bounds | record["numbers"]
    row |= {STATUS: record["status"], VERSION: record["version"], KEYS: tuple(record["keys"])}
    return row_id(record["window_start"], record["keys"]), row


def state_of(view: View, rows: Iterator[Row] | list[Row], version: int) -> State:
    """Served rows by their ids."""
    return {
        row_id(row.get(BOUNDS[0]), {key: row[key] for key in view.keys}): row
        | {VERSION: version, KEYS: view.keys}
        for row in rows
    }


def joined(first: Step, then: Step) -> Step:
    """Two steps as one."""
    before = {at: row for at, row in then.before.items() if at not in first.after} | first.before
    after = {at: row for at, row in first.after.items() if at not in then.before} | then.after
    return Step(before, after)


def outgoing(emit: Emit, step: Step) -> tuple[State, State]:
    """What is to be changed and what withdrawn so that a sink holds what it is to hold."""
    before, after = wanted(emit, step.before), wanted(emit, step.after)
    changed = {
        at: row
        for at, row in after.items()
        if at not in before or _says(emit, before[at]) != _says(emit, row)
    }
    return changed, {at: row for at, row in before.items() if at not in after}


def wanted(emit: Emit, state: State) -> State:
    """What a sink is to hold: all rows, or those whose windows are final."""
    if emit == "updates":
        return state
    return {at: row for at, row in state.items() if row[STATUS] != "provisional"}


def _says(emit: Emit, row: Row) -> Row:
    """What makes a row another one. A table has rows of one version; in a history, the same number is no news."""
    hidden = (VERSION, KEYS) if emit == "revisions" else (KEYS,)
    return {name: value for name, value in row.items() if name not in hidden}
