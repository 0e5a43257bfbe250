"""Reads the active version of a view from its tables, as much of it as a question needs."""

from dataclasses import dataclass

from braid.define.loading import load_definitions
from braid.define.windows import Window
from braid.deploy import store as deployment
from braid.deploy.versions import Version
from braid.errors import BraidError, NotYet
from braid.merge.arrow import Snapshot, base_columns, tail_columns
from braid.runtime.settings import Settings
from braid.tables.commits import TailCommit
from braid.tables.delta_rs import Pinned, pin_at, table_id
from braid.tables.tail_and_base import base_lost, belongs
from braid.tables.view_tables import ViewTables
from braid.writing import is_same_table
from serving_layer.answer.scope import EVERYTHING, Scope, condition, day_condition

# Tables are rebuilt by hand, and seldom.
ATTEMPTS = 3


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
    tail = pin_at(ViewTables.of(settings, version).tail)
    if tail is None:
        raise no_table(version)
    return tail


def pin_base(settings: Settings, version: Version) -> Pinned | None:
    """None when no day has been published yet."""
    return pin_at(ViewTables.of(settings, version).base)


def no_table(version: Version) -> NotYet:
    name = version.view.name
    return NotYet(
        f"view {name!r} has no table for its version {version.number} yet: run `braid stream {name}`."
    )


def being_rebuilt(version: Version) -> NotYet:
    return NotYet(f"the tables of view {version.view.name!r} are being rebuilt: ask again in a moment.")


def read(settings: Settings, version: Version, scope: Scope = EVERYTHING) -> Snapshot:
    """What a question needs of a version's tables, as they are now."""
    place = ViewTables.of(settings, version).tail
    for _ in range(ATTEMPTS):
        # The tail first. Its writer removes rows only after a base covers them: a base that is pinned later covers at
        # least what this tail has lost. The other way round, a publish between the two would be a dip.
        tail = pin_tail(settings, version)
        base = pin_base(settings, version)
        # Tables that were rebuilt between the two would be mixed with those that they replaced.
        if is_same_table(tail.table_id, table_id(place)):
            found = snapshot(version, tail, base, scope)
            refuse_other_base(settings, version, found.mark, base)
            return found
    raise being_rebuilt(version)


def refuse_other_base(
    settings: Settings, version: Version, mark: TailCommit | None, base: Pinned | None
) -> None:
    """What has left the tail must be in the base that was pinned after it."""
    newest, name = (None, None) if base is None else (base.version, base.table_id)
    if not belongs(mark, name, newest):
        raise base_lost(ViewTables.of(settings, version))


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
