"""The least and the greatest value."""

from dataclasses import dataclass
from typing import ClassVar

from braid.measures.base import Measure
from braid.measures.engines import Column, DataType, F
from braid.measures.types import ORDERED, family


@dataclass(frozen=True)
class Extreme(Measure):
    """State: a value of the column's own type, null if there is none. NaN is greater than every other number."""

    accepts: ClassVar[frozenset[str]] = ORDERED
    needs: ClassVar[str] = "a type with an order (numbers, text, dates, timestamps, booleans, binary)"

    def state_bytes(self) -> tuple[int, int]:
        return 1, 64

    def state_type(self, simple_type: str | None) -> str | None:
        return simple_type

    def bound(self) -> str:
        return "exact"

    def prepare(self, dtype: DataType | None) -> Column:
        column, simple_type = self.typed_input(dtype)
        if family(simple_type) == "real":
            # -0.0 and 0.0 are equal, so which of them is kept would depend on the order of arrival.
            column = (column + F.lit(0.0)).cast(simple_type)
        return self.merge(column)

    def merge(self, state: Column) -> Column:
        return F.min(state) if self.state_kind == "min" else F.max(state)

    def present(self, state: Column) -> Column:
        return state

    def merge_sql(self, state: str) -> str:
        return f"{self.state_kind}({state})"


@dataclass(frozen=True)
class Min(Extreme):
    kind: ClassVar[str] = "min_"
    state_kind: ClassVar[str] = "min"


@dataclass(frozen=True)
class Max(Extreme):
    kind: ClassVar[str] = "max_"
    state_kind: ClassVar[str] = "max"
