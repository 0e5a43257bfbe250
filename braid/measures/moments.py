"""The sample standard deviation, from moments that merge without cancellation (Chan, Golub and LeVeque)."""

from dataclasses import dataclass
from typing import ClassVar

from braid.measures.base import NUMBERS, Measure, listed
from braid.measures.engines import Column, DataType, F, np, pa


@dataclass(frozen=True)
class StdDev(Measure):
    """State: struct<n bigint, mean double, m2 double>, m2 being the sum of squared distances from the mean.

    Presented as the sample standard deviation (n - 1 in the denominator), null for fewer than two values.
    """

    kind: ClassVar[str] = "stddev"
    state_kind: ClassVar[str] = "moments"
    accepts: ClassVar[frozenset[str]] = NUMBERS
    needs: ClassVar[str] = "numbers"

    def state_bytes(self) -> tuple[int, int]:
        return 24, 24

    def state_type(self, simple_type: str | None) -> str | None:
        return "struct<n:bigint,mean:double,m2:double>"

    def bound(self) -> str:
        return "floating point: relative error about n * 2^-52 * (1 + |mean| / stddev)"

    def prepare(self, dtype: DataType | None) -> Column:
        x = self.typed_input(dtype)[0].cast("double") + F.lit(0.0)
        n = F.count(x)
        return F.struct(
            n.alias("n"),
            F.coalesce(F.avg(x), F.lit(0.0)).alias("mean"),
            F.coalesce(F.var_pop(x) * n, F.lit(0.0)).alias("m2"),
        )

    def merge(self, state: Column) -> Column:
        nothing = F.struct(
            F.lit(0).cast("bigint").alias("n"), F.lit(0.0).alias("mean"), F.lit(0.0).alias("m2")
        )
        return F.aggregate(F.collect_list(F.when(state["n"] > 0, state)), nothing, _chan)

    def present(self, state: Column) -> Column:
        return F.when(state["n"] > 1, F.sqrt(state["m2"] / (state["n"] - 1)))

    def merge_sql(self, state: str) -> str:
        return listed(state)

    def merge_lists(self, gathered: "pa.Array") -> "pa.Array":
        """The mean of all first, then every state's distance from it: two passes, and as stable as Chan's rule."""
        groups = len(gathered)
        parts = gathered.flatten()
        group = np.repeat(
            np.arange(groups), gathered.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        )
        n, mean, m2 = (parts.field(name).to_numpy(zero_copy_only=False) for name in ("n", "mean", "m2"))
        present = n > 0
        group, n, mean, m2 = group[present], n[present], mean[present], m2[present]
        total = np.bincount(group, weights=n, minlength=groups)
        with np.errstate(invalid="ignore", over="ignore"):
            centre = np.bincount(group, weights=n / total[group] * mean, minlength=groups)
            spread = np.bincount(group, weights=m2 + n * (mean - centre[group]) ** 2, minlength=groups)
        return pa.StructArray.from_arrays(
            [pa.array(total.astype("int64")), pa.array(centre), pa.array(spread)], names=["n", "mean", "m2"]
        )

    def present_arrow(self, states: "pa.Array") -> "pa.Array":
        n, m2 = (states.field(name).to_numpy(zero_copy_only=False) for name in ("n", "m2"))
        return pa.array(np.sqrt(m2 / np.maximum(n - 1, 1)), mask=n < 2)


def _chan(a: Column, b: Column) -> Column:
    """Two states of which the second is not empty."""
    n = a["n"] + b["n"]
    delta = b["mean"] - a["mean"]
    mean = F.when(a["n"] == 0, b["mean"]).otherwise(a["mean"] + delta * b["n"] / n)
    m2 = F.when(a["n"] == 0, b["m2"]).otherwise(a["m2"] + b["m2"] + delta * delta * a["n"] * b["n"] / n)
    return F.struct(n.alias("n"), mean.alias("mean"), m2.alias("m2"))
