"""A lookup: a static table, or what another view has learnt, joined to events by key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from braid.define.names import FrozenMap, require_mapping, require_text, set_field, suggest
from braid.errors import DefinitionError

if TYPE_CHECKING:
    from braid.define.view import View

FORMATS = ("delta", "csv", "parquet")
_EXAMPLE = "Lookup(table='users.csv', on='user_id', columns=('country',))"


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """`columns` of `table` for the event's key `on`; a key that the table does not have gives nulls."""

    table: "str | View"
    on: str | tuple[str, ...]
    columns: tuple[str, ...] | Mapping[str, str]
    format: Literal["delta", "csv", "parquet"] | None = None

    def __post_init__(self) -> None:
        set_field(self, "on", _names(self.on, "on"))
        set_field(self, "columns", _renames(self.columns))
        if isinstance(self.table, str):
            self._check_path(self.table)
        else:
            self._check_view()
        both = [name for name in self.keys if name in self.added.values()]
        if both:
            raise DefinitionError(
                f"{self.label}: {both[0]!r} is the key and the event has it already: leave it out of columns, or "
                "rename it with columns={'column': 'new_name'}."
            )

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns, of the event and of the table, that are compared."""
        return (self.on,) if isinstance(self.on, str) else self.on

    @property
    def added(self) -> Mapping[str, str]:
        """Column of the table -> the name that it has in the event."""
        return self.columns if isinstance(self.columns, Mapping) else {name: name for name in self.columns}

    @property
    def view(self) -> "View | None":
        return None if isinstance(self.table, str) else self.table

    @property
    def location(self) -> str:
        """The table's path or URI; for a view, its name."""
        return self.table if isinstance(self.table, str) else self.table.name

    @property
    def kind(self) -> str:
        """How the table is read: delta, csv, parquet, or view."""
        if self.view is not None:
            return "view"
        path = self.location.lower().rstrip("/")
        by_ending = (
            "csv"
            if path.endswith((".csv", ".csv.gz"))
            else "parquet"
            if path.endswith(".parquet")
            else "delta"
        )
        return self.format or by_ending

    @property
    def label(self) -> str:
        return f"lookup {self.location!r}"

    def _check_path(self, path: str) -> None:
        require_text(path, "the table of a lookup", "users.csv")
        if self.format is not None and self.format not in FORMATS:
            raise DefinitionError(
                f"{self.label}: format {self.format!r} is not known. {suggest(str(self.format), FORMATS, 'formats')}"
            )

    def _check_view(self) -> None:
        from braid.define.view import View

        view = self.table
        if not isinstance(view, View):
            raise DefinitionError(
                f"the table of a lookup is {view!r}: write the path of a Delta table or of a .csv or .parquet "
                f"file, or a View, such as {_EXAMPLE}."
            )
        if self.format is not None:
            raise DefinitionError(f"{self.label}: a view has no format: leave out format={self.format!r}.")
        if view.window.kind != "all_time":
            raise DefinitionError(
                f"{self.label}: its window is {view.window.describe()}, which gives many rows for a key, and a "
                "lookup needs one: define a view with window=all_time() and look that up."
            )
        if set(self.keys) != set(view.keys):
            raise DefinitionError(
                f"{self.label}: on is {self.keys!r} and the view's keys are {view.keys!r}: a row is found only by "
                "all of its keys, so make them the same."
            )
        for column in self.added:
            if column not in view.measures:
                raise DefinitionError(
                    f"{self.label}: {column!r} is not a measure of it. {suggest(column, view.measures, 'measures')}"
                )


def _names(value: object, what: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, (tuple, list)) or not names or not all(isinstance(n, str) and n for n in names):
        raise DefinitionError(
            f"{what} of a lookup is {value!r}: write one or more names of columns, as in {_EXAMPLE}."
        )
    if len(set(names)) < len(names):
        raise DefinitionError(f"{what} of a lookup is {value!r}: a name is there twice; remove one.")
    return tuple(names)


def _renames(value: object) -> FrozenMap[str]:
    """Both ways to write `columns`, as column of the table -> name in the event."""
    if not isinstance(value, Mapping):
        return FrozenMap((name, name) for name in _names(value, "columns"))
    pairs = require_mapping(value, "columns of a lookup", "{'country': 'user_country'}")
    _names(tuple(pairs.values()), "columns")
    return FrozenMap((column, str(name)) for column, name in pairs.items())
