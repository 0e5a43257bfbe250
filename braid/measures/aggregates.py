"""Count, sum, mean, least and greatest value: exact for integers and decimals, floating point for floats."""

from dataclasses import dataclass
from typing import ClassVar

from braid.errors import DefinitionError
from braid.measures.base import MAX_SUMMED_DIGITS, NUMBERS, ORDERED, Measure, digits, family
from braid.measures.engines import Column, DataType, F, pa, pc

LIMB_BITS = 32


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

    def prepare(self, dtype: DataType | None) -> Column:
        return F.count(F.lit(1)) if self.column is None else F.count(F.col(self.column))

    def merge(self, state: Column) -> Column:
        return F.sum(state)

    def merge_sql(self, state: str) -> str:
        return f"sum({state})::BIGINT"


@dataclass(frozen=True)
class Sum(Measure):
    """State: decimal(38,0) for integers, decimal(38,s) for decimals of scale s, double for floats; null if no value.

    A state of 38 digits because Spark stops a stream whose sum overflows, and a bigint can.
    """

    kind: ClassVar[str] = "sum_"
    state_kind: ClassVar[str] = "sum"
    accepts: ClassVar[frozenset[str]] = NUMBERS
    needs: ClassVar[str] = "numbers"

    def check_type(self, simple_type: str) -> None:
        super().check_type(simple_type)
        precision, scale = digits(simple_type)
        if family(simple_type) == "decimal" and precision > MAX_SUMMED_DIGITS:
            narrow = f"decimal({MAX_SUMMED_DIGITS},{min(scale, MAX_SUMMED_DIGITS)})"
            raise DefinitionError(
                f"{self.kind}({self.column!r}): a sum of {simple_type} can outgrow the 38 digits of its state. "
                f"Derive a column of at most {MAX_SUMMED_DIGITS} digits, for example "
                f"derive={{'{self.column}_narrow': 'cast({self.column} as {narrow})'}}, and sum that."
            )

    def state_bytes(self) -> tuple[int, int]:
        return 8, 16

    def state_type(self, simple_type: str | None) -> str | None:
        return None if simple_type is None else total_type(simple_type)

    def bound(self) -> str:
        return "exact for integers and decimals; floats: |error| <= n * 2^-52 * sum(|x|)"

    def prepare(self, dtype: DataType | None) -> Column:
        return exact_total(*self.typed_input(dtype))

    def merge(self, state: Column) -> Column:
        return F.sum(state)

    def merge_sql(self, state: str) -> str:
        return f"sum({state})"


@dataclass(frozen=True)
class Mean(Measure):
    """State: struct<n bigint, total> with the total of `sum_` (a double for decimals too wide for that)."""

    kind: ClassVar[str] = "mean"
    state_kind: ClassVar[str] = "mean"
    accepts: ClassVar[frozenset[str]] = NUMBERS
    needs: ClassVar[str] = "numbers"

    def state_bytes(self) -> tuple[int, int]:
        return 16, 24

    def state_type(self, simple_type: str | None) -> str | None:
        if simple_type is None:
            return None
        is_wide = family(simple_type) == "decimal" and digits(simple_type)[0] > MAX_SUMMED_DIGITS
        return f"struct<n:bigint,total:{'double' if is_wide else total_type(simple_type)}>"

    def bound(self) -> str:
        return (
            "integers and decimals: exact total, rounded once to a double; "
            "floats: |error| <= n * 2^-52 * mean(|x|)"
        )

    def prepare(self, dtype: DataType | None) -> Column:
        column, simple = self.typed_input(dtype)
        if family(simple) == "decimal" and digits(simple)[0] > MAX_SUMMED_DIGITS:
            column, simple = column.cast("double"), "double"
        return F.struct(F.count(column).alias("n"), exact_total(column, simple).alias("total"))

    def merge(self, state: Column) -> Column:
        return F.struct(
            F.coalesce(F.sum(state["n"]), F.lit(0)).alias("n"), F.sum(state["total"]).alias("total")
        )

    def present(self, state: Column) -> Column:
        return F.try_divide(state["total"].cast("double"), state["n"].cast("double"))

    def merge_sql(self, state: str) -> str:
        return f"struct_pack(n := coalesce(sum({state}.n), 0)::BIGINT, total := sum({state}.total))"

    def present_arrow(self, states: "pa.Array") -> "pa.Array":
        n = pc.struct_field(states, "n")
        total = pc.cast(pc.struct_field(states, "total"), "float64")
        return pc.divide(total, pc.cast(pc.if_else(pc.equal(n, 0), None, n), "float64"))


def total_type(simple_type: str) -> str:
    """The type of `exact_total`."""
    if family(simple_type) == "real":
        return "double"
    return f"decimal(38,{digits(simple_type)[1]})" if family(simple_type) == "decimal" else "decimal(38,0)"


def exact_total(column: Column, simple_type: str) -> Column:
    """The sum of a column in the widest type of its family; null when there is no value."""
    if family(simple_type) == "real":
        # Adding zero makes -0.0 plain: the sign of a zero would depend on the order of arrival.
        return F.sum(column.cast("double")) + F.lit(0.0)
    if family(simple_type) == "decimal":
        return F.sum(column).cast(f"decimal(38,{digits(simple_type)[1]})")
    if simple_type != "bigint":
        return F.sum(column).cast("decimal(38,0)")
    # Two bigint sums of half the bits each: as fast as one, and exact for 2^31 events of one group in one batch
    # whatever their values. A sum of decimals has no such bound, and takes more than half as long again.
    high = F.sum(F.shiftright(column, LIMB_BITS)).cast("decimal(27,0)")
    low = F.sum(column.bitwiseAND(F.lit(2**LIMB_BITS - 1))).cast("decimal(27,0)")
    return (high * F.lit(2**LIMB_BITS).cast("decimal(10,0)") + low).cast("decimal(38,0)")


@dataclass(frozen=True)
class Extreme(Measure):
    """State: a value of the column's own type, null if there is none. NaN is greater than every other number."""

    accepts: ClassVar[frozenset[str]] = ORDERED
    needs: ClassVar[str] = "a type with an order (numbers, text, dates, timestamps, booleans, binary)"

    def state_bytes(self) -> tuple[int, int]:
        return 1, 64

    def state_type(self, simple_type: str | None) -> str | None:
        return simple_type

    def prepare(self, dtype: DataType | None) -> Column:
        column, simple_type = self.typed_input(dtype)
        if family(simple_type) == "real":
            # -0.0 and 0.0 are equal, so which of them is kept would depend on the order of arrival.
            column = (column + F.lit(0.0)).cast(simple_type)
        return self.merge(column)

    def merge(self, state: Column) -> Column:
        return F.min(state) if self.state_kind == "min" else F.max(state)

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
