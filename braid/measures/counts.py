"""How many events there are, or how many have a value."""

from dataclasses import dataclass
from typing import ClassVar

from braid.measures.base import Measure
from braid.measures.engines import Column, DataType, F
from braid.measures.types import ORDERED


@dataclass(frozen=True)
class Count(Measure):
    """State: bigint."""

    column: str | None = None

    kind: ClassVar[str] = "count"
    state_kind: ClassVar[str] = "count"
    accepts: ClassVar[frozenset[str]] = ORDERED | {"nested"}
    needs: ClassVar[str] = "any column"

    def __post_init__(self) -> None:
        if self.column is not None:
            super().__post_init__()

    def state_bytes(self) -> tuple[int, int]:
        return 8, 8

    def state_type(self, simple_type: str | None) -> str | None:
        return "bigint"

    def bound(self) -> str:
        return "exact"

    def prepare(self, dtype: DataType | None) -> Column:
        return F.count(F.lit(1)) if self.column is None else F.count(F.col(self.column))

    def merge(self, state: Column) -> Column:
        return F.sum(state)

    def present(self, state: Column) -> Column:
        return state

    def merge_sql(self, state: str) -> str:
        return f"sum({state})::BIGINT"
