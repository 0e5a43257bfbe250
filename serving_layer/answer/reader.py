"""Reads a view as it is served: base and tail of its active version, each event from exactly one side of its cut."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from braid.define.loading import load_definitions
from braid.define.view import View
from braid.define.windows import Window
from braid.deploy import store as deployment
from braid.deploy.store import Version
from braid.errors import BraidError
from braid.runtime.settings import Settings
from braid.states import EVENTS, state_columns
from braid.states.arrow import INSTANT
from braid.tables.commits import TailCommit
from braid.tables.delta_rs import (
    Pinned,
    open_table,
    pin,
    require_table,
)
from braid.tables.view_tables import LATE, ViewTables, bounds
from serving_layer.answer.scope import (
    EVERYTHING,
    Scope,
    condition,
    day_condition,
)

# How many of a row's events the tail holds: the others are in the base.
IN_TAIL = "_in_tail"


@dataclass(frozen=True)
class Snapshot:
    """One version's tables at one moment. Rows of the tail that the base covers may be there, and are not served."""

    version: Version
    tail_version: int
    base_version: int | None
    tail: pa.Table
    base: pa.Table
    through: Mapping[date, datetime]
    mark: TailCommit | None

    @property
    def view(self) -> View:
        return self.version.view


def active_version(settings: Settings, name: str) -> Version:
    """The version that is served now."""
    version = deployment.load(settings, name).active
    if version is None:
        load_definitions(settings.definitions).view(name)
        raise BraidError(
            f"view {name!r} is not deployed, so it has no numbers yet: run `braid stream {name}`."
        )
    return version


def pin_tail(settings: Settings, version: Version) -> Pinned:
    return pin(require_table(ViewTables(settings, version.view.name, version.number).tail, version))


def pin_base(settings: Settings, version: Version) -> Pinned | None:
    """None when no day has been published yet."""
    table = open_table(ViewTables(settings, version.view.name, version.number).base)
    return None if table is None else pin(table)


def read(settings: Settings, version: Version, scope: Scope = EVERYTHING) -> Snapshot:
    """What a question needs of a version's tables, as they are now."""
    # The tail first. Its writer removes rows only after a base covers them: a base that is pinned later covers at
    # least what this tail has lost. The other way round, a publish between the two would be a dip.
    tail = pin_tail(settings, version)
    base = pin_base(settings, version)
    return snapshot(version, tail, base, scope)


@dataclass(frozen=True)
class FromTables:
    """A version that is read from its tables at every question."""

    settings: Settings
    version: Version

    def windows(self, scope: Scope, _window: Window) -> Snapshot:
        return read(self.settings, self.version, scope)

    def whole(self, scope: Scope) -> Snapshot:
        return read(self.settings, self.version, scope)


def snapshot(version: Version, tail: Pinned, base: Pinned | None, scope: Scope = EVERYTHING) -> Snapshot:
    view = version.view
    zone = view.source.zone
    rows = tail.rows(tail_columns(view), condition(scope, tail.schema, zone))
    return Snapshot(
        version,
        tail.version,
        None if base is None else base.version,
        rows,
        rows.select(base_columns(view)).slice(0, 0)
        if base is None
        else base.rows(base_columns(view), condition(scope, base.schema, zone)),
        # Apart from the rows: a day of which no row is in the scope has a cut all the same.
        {} if base is None else base.throughs(day_condition(scope, zone)),
        tail.mark(),
    )


def tail_columns(view: View) -> list[str]:
    return ["epoch", *base_columns(view)]


def base_columns(view: View) -> list[str]:
    """Without `through`: a snapshot keeps it once for each day."""
    return ["day", *bounds(view), LATE, *view.keys, *state_columns(view)]


def uncovered(tail: pa.Table, through: Mapping[date, datetime]) -> pa.Table:
    """The tail's rows beyond the cut of their day; all of them for a day without one."""
    days = pa.array(through.keys(), pa.date32())
    cuts = pa.array(through.values(), INSTANT)
    cut = cuts.take(pc.index_in(tail["day"], days).combine_chunks())
    return tail.filter(pc.fill_null(pc.greater(tail["epoch"], cut), True))


def served_states(snapshot: Snapshot) -> pa.Table:
    """States as they are to be merged: those of the base, and those of the tail beyond each day's cut."""
    base, tail = snapshot.base, uncovered(snapshot.tail, snapshot.through).drop_columns("epoch")
    # A day without events has one row, which carries the day's cut and nothing else.
    base = base.filter(pc.is_valid(base[bounds(snapshot.view)[0]]))
    nothing = pa.repeat(pa.scalar(0, pa.int64()), len(base))
    sides = [base.append_column(IN_TAIL, nothing), tail.append_column(IN_TAIL, tail[EVENTS.state_name])]
    return pa.concat_tables(sides, promote_options="permissive")
