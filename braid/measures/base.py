"""What every measure is: prepare, merge and present over an explicit state, twice (Spark columns and Arrow)."""

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from braid.errors import DefinitionError
from braid.measures.engines import Column, DataType, F, pa

COUNTED = "_counted"
# Sums of floating-point numbers depend on the order of adding, in their last digits.
FLOAT_TOLERANCE = 1e-9
# Sums of 28 digits stay within the 38 of a state for ten thousand million rows.
MAX_SUMMED_DIGITS = 28

INTEGERS = ("tinyint", "smallint", "int", "bigint")
REALS = ("float", "double")
NUMBERS = frozenset({"integer", "decimal", "real"})
ORDERED = NUMBERS | {"text", "boolean", "binary", "date", "timestamp"}

_FAMILIES = dict.fromkeys(INTEGERS, "integer") | dict.fromkeys(REALS, "real") | {
    "string": "text", "boolean": "boolean", "binary": "binary", "date": "date",
    "timestamp": "timestamp", "timestamp_ntz": "timestamp",
}  # fmt: skip


@dataclass(frozen=True)
class Measure(ABC):
    """A number that can be computed in parts: states merge in any order and any grouping."""

    column: str | None

    kind: ClassVar[str]
    state_kind: ClassVar[str]
    """Names the stored state; two kinds that keep the same state share it."""
    accepts: ClassVar[frozenset[str]]
    needs: ClassVar[str]
    """What `accepts` means, in words, for the error message."""
    error: ClassVar[float | None] = None
    """How far an approximate number may be from the exact one, relative to it."""

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column.strip():
            raise DefinitionError(
                f"{self.kind}({self.column!r}) needs the name of a column, such as {self.kind}('bytes')."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    @property
    def state_name(self) -> str:
        """The stored column's name comes from its content, so that renaming a measure touches no table."""
        if self.column is None:
            return self.state_kind
        plain = re.sub(r"\W", "_", self.column)
        # "a.b" and "a_b" are two columns, and must not share a state.
        suffix = "" if plain == self.column else f"_{zlib.crc32(self.column.encode()):08x}"
        return f"{self.state_kind}_{plain}{suffix}"

    def validate(self, types: Mapping[str, str]) -> None:
        """Refuses a known column of a type that this measure cannot take; unknown columns are derived ones."""
        for column in self.columns:
            if column in types:
                self.check_type(types[column])

    def check_type(self, simple_type: str) -> None:
        if family(simple_type) not in self.accepts:
            raise DefinitionError(
                f"{self.kind}({self.column!r}): {self.column!r} is of type {simple_type}, and {self.kind} needs "
                f"{self.needs}. Derive such a column, for example "
                f"derive={{'{self.column}_number': 'cast({self.column} as bigint)'}}, and measure that."
            )

    def typed_input(self, dtype: DataType | None) -> tuple[Column, str]:
        """The input column and its type in Spark's short form; a type that only Spark knows is checked here."""
        if self.column is None or dtype is None:
            raise ValueError(f"{self} has no input column of a known type")
        self.check_type(dtype.simpleString())
        return F.col(self.column), dtype.simpleString()

    def spec(self) -> dict[str, Any]:
        """Everything that changes the presented number."""
        return {"kind": self.kind, "column": self.column}

    def state_spec(self) -> dict[str, Any]:
        """Everything that changes the stored state."""
        return {"state": self.state_kind, "column": self.column}

    @abstractmethod
    def state_bytes(self) -> tuple[int, int]:
        """About how few and how many bytes a state takes in a row."""

    @abstractmethod
    def state_type(self, simple_type: str | None) -> str | None:
        """The state's type in Spark's short form, from that of the column; None where that must be known and is not."""

    def bound(self) -> str:
        """How exact the presented number is."""
        return "exact"

    def bucket(self, dtype: DataType | None) -> Column | None:
        """What events are counted by before `prepare`, for a state that no native aggregate builds from events.

        `prepare` is then an aggregate over rows with the columns `bucket_column` and COUNTED.
        """
        return None

    @property
    def bucket_column(self) -> str:
        return f"_bucket_{self.state_name}"

    @abstractmethod
    def prepare(self, dtype: DataType | None) -> Column:
        """Events -> state, as a native aggregate over the event's columns; `dtype` is this column's type."""

    @abstractmethod
    def merge(self, state: Column) -> Column:
        """States -> state, as a native aggregate. A null state is the identity."""

    def present(self, state: Column) -> Column:
        """State -> number."""
        return state

    @abstractmethod
    def merge_sql(self, state: str) -> str:
        """`merge` as a DuckDB aggregate; or the states as a list, for `merge_lists`. `state` is quoted."""

    def merge_lists(self, gathered: "pa.Array") -> "pa.Array":
        """Finishes `merge_sql` where SQL cannot merge."""
        return gathered

    @property
    def merges_in_sql(self) -> bool:
        """Whether a stored state is what a merge of it alone would give: what is gathered is also put in order."""
        return type(self).merge_lists is Measure.merge_lists

    def present_arrow(self, states: "pa.Array") -> "pa.Array":
        """`present` over states that `merge_sql` and `merge_lists` have merged."""
        return states


def listed(state: str) -> str:
    """The DuckDB aggregate that gathers the states of a group for `merge_lists`."""
    return f"list({state}) FILTER ({state} IS NOT NULL)"


def family(simple_type: str) -> str:
    """Such as "bigint" -> "integer", "decimal(10,2)" -> "decimal", "array<int>" -> "nested"."""
    name = re.split(r"[( <]", simple_type.strip().lower())[0]
    if name in ("decimal", "char", "varchar"):
        return "decimal" if name == "decimal" else "text"
    return _FAMILIES.get(name, "nested")


def digits(simple_type: str) -> tuple[int, int]:
    """Precision and scale of a decimal type."""
    found = re.fullmatch(r"\s*decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)\s*", simple_type.lower())
    return (int(found[1]), int(found[2])) if found else (10, 0)
