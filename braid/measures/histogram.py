"""Quantiles from a histogram whose buckets grow by a constant ratio, so that the relative error is bounded."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from braid.errors import DefinitionError
from braid.measures.base import COUNTED, NUMBERS, Measure, listed
from braid.measures.engines import Column, DataType, F, np, pa

# A little below the 1 % that is promised: rounding at the edge of a bucket must not exceed it.
ALPHA = 0.00999
LOG_GAMMA = math.log((1 + ALPHA) / (1 - ALPHA))
LOG_MIDDLE = math.log(2 / (1 + (1 + ALPHA) / (1 - ALPHA)))

# Bucket numbers increase with the value: -infinity, negative numbers, zero, positive numbers, infinity, NaN.
OFFSET = 40_000
INFINITE = 100_000
NOT_A_NUMBER = 100_001
TINY = 1e-300
HUGE = 1.7976931348623157e308


@dataclass(frozen=True)
class Quantile(Measure):
    """State: map<int, bigint>, the number of values in each bucket.

    The quantile q of n values is the one with rank floor(q * (n - 1)), counted from 0 in increasing order. NaN is
    a value greater than every other (as in min_ and max_), and the infinities are values; values closer to zero
    than 1e-300 count as zero.
    """

    q: float = 0.5

    kind: ClassVar[str] = "quantile"
    state_kind: ClassVar[str] = "hist"
    accepts: ClassVar[frozenset[str]] = NUMBERS
    needs: ClassVar[str] = "numbers"
    error: ClassVar[float] = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.q, bool) or not isinstance(self.q, int | float) or not 0 <= self.q <= 1:
            raise DefinitionError(
                f"quantile({self.column!r}, {self.q!r}): q must be a number between 0 and 1, such as 0.95."
            )

    def spec(self) -> dict[str, Any]:
        return super().spec() | {"q": float(self.q), "alpha": ALPHA}

    def state_spec(self) -> dict[str, Any]:
        return super().state_spec() | {"alpha": ALPHA}

    def state_bytes(self) -> tuple[int, int]:
        # Values that span nine powers of ten fill about 1,040 buckets.
        return 12, 12 * 1_040

    def state_type(self, simple_type: str | None) -> str | None:
        return "map<int,bigint>"

    def bound(self) -> str:
        return "relative error <= 1 %"

    def bucket(self, dtype: DataType | None) -> Column:
        x = self.typed_input(dtype)[0].cast("double")
        size = F.least(F.greatest(F.abs(x), F.lit(TINY)), F.lit(HUGE))
        number = F.lit(OFFSET) + F.ceil(F.ln(size) / F.lit(LOG_GAMMA))
        bucket = (
            F.when(F.isnan(x), F.lit(NOT_A_NUMBER))
            .when(F.abs(x) == float("inf"), F.signum(x) * INFINITE)
            .when(F.abs(x) < TINY, F.lit(0))
            .otherwise(F.signum(x) * number)
        )
        return bucket.cast("int")

    def prepare(self, dtype: DataType | None) -> Column:
        bucket = F.col(self.bucket_column)
        entry = F.struct(bucket.alias("key"), F.col(COUNTED).alias("value"))
        return F.map_from_entries(F.collect_list(F.when(bucket.isNotNull(), entry)))

    def merge(self, state: Column) -> Column:
        def add(a: Column, b: Column) -> Column:
            return F.map_zip_with(a, b, lambda _, x, y: F.coalesce(x, F.lit(0)) + F.coalesce(y, F.lit(0)))

        return F.aggregate(F.collect_list(state), F.create_map().cast("map<int,bigint>"), add)

    def present(self, state: Column) -> Column:
        zero = F.lit(0).cast("bigint")
        n = F.aggregate(F.map_values(state), zero, lambda total, value: total + value)
        rank = F.floor(F.lit(float(self.q)) * (n - 1))

        def step(acc: Column, entry: Column) -> Column:
            seen = acc["seen"] + entry["value"]
            found = F.when(acc["bucket"].isNull() & (seen > rank), entry["key"]).otherwise(acc["bucket"])
            return F.struct(seen.alias("seen"), found.alias("bucket"))

        start = F.struct(zero.alias("seen"), F.lit(None).cast("int").alias("bucket"))
        bucket = F.aggregate(F.array_sort(F.map_entries(state)), start, step)["bucket"]
        size = F.least(F.exp((F.abs(bucket) - OFFSET) * F.lit(LOG_GAMMA) + LOG_MIDDLE), F.lit(HUGE))
        return (
            F.when(bucket == 0, F.lit(0.0))
            .when(bucket == NOT_A_NUMBER, F.lit(float("nan")))
            .when(F.abs(bucket) == INFINITE, F.signum(bucket) * F.lit(float("inf")))
            .otherwise(F.signum(bucket) * size)
        )

    def merge_sql(self, state: str) -> str:
        return listed(state)

    def merge_lists(self, gathered: "pa.Array") -> "pa.Array":
        groups = len(gathered)
        lengths = gathered.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        maps = gathered.flatten()
        sizes = np.diff(maps.offsets.to_numpy())
        entries = slice(*(maps.offsets[i].as_py() for i in (0, -1))) if len(maps) else slice(0, 0)
        keys = maps.keys.to_numpy(zero_copy_only=False)[entries]
        counts = maps.items.to_numpy(zero_copy_only=False)[entries]
        group = np.repeat(np.repeat(np.arange(groups), lengths), sizes)
        order = np.lexsort((keys, group))
        keys, counts, group = keys[order], counts[order], group[order]
        fresh = np.ones(len(keys), dtype=bool)
        fresh[1:] = (keys[1:] != keys[:-1]) | (group[1:] != group[:-1])
        starts = np.flatnonzero(fresh)
        summed = np.add.reduceat(counts, starts) if len(starts) else counts
        offsets = np.searchsorted(group[starts], np.arange(groups + 1)).astype("int32")
        return pa.MapArray.from_arrays(
            offsets, pa.array(keys[starts], pa.int32()), pa.array(summed, pa.int64())
        )

    def present_arrow(self, states: "pa.Array") -> "pa.Array":
        """Relies on the increasing buckets that `merge_lists` leaves."""
        offsets = states.offsets.to_numpy()
        keys = states.keys.to_numpy(zero_copy_only=False)
        seen = np.concatenate(([0], np.cumsum(states.items.to_numpy(zero_copy_only=False)))).astype("int64")
        before, n = seen[offsets[:-1]], seen[offsets[1:]] - seen[offsets[:-1]]
        rank = np.floor(float(self.q) * (n - 1)).astype("int64")
        at = np.searchsorted(seen, before + rank, side="right") - 1
        empty = n == 0
        bucket = np.zeros(len(n), dtype="int64")
        bucket[~empty] = keys[at[~empty]]
        with np.errstate(over="ignore"):
            size = np.minimum(np.exp((np.abs(bucket) - OFFSET) * LOG_GAMMA + LOG_MIDDLE), HUGE)
        size = np.where(np.abs(bucket) == INFINITE, np.inf, size)
        values = np.where(bucket == NOT_A_NUMBER, np.nan, np.sign(bucket) * size)
        return pa.array(values, pa.float64(), mask=empty)
