"""Each group of a comparison with what is served of it, what is right, how far the two are apart, and why."""

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from braid.define.view import View
from braid.measures import Measure
from braid.measures.histogram import Quantile
from braid.parity import EVENTS_SHOWN, NUMBERS, VERDICT, group_columns, presented, same, shared_measures
from serving_layer.accuracy.explain.compared_rows import in_groups
from serving_layer.accuracy.explain.variants import Variants
from serving_layer.accuracy.report.values import COPIES, DEFINITION, LOOKUP, ROUNDING, SKETCH, UNEXPLAINED

FLOATING = ("double", "float")
CAUSES = "_causes"


def approximate(view: View) -> dict[str, Measure]:
    return {name: measure for name, measure in view.measures.items() if measure.error is not None}


def exact_column(name: str) -> str:
    return f"_exact_{name}"


def exact_values(view: View, events: DataFrame, states: DataFrame) -> DataFrame | None:
    """A row per group with the exact values, of events that give these states; None when all measures are exact."""
    wanted = approximate(view)
    if not wanted:
        return None
    placed, group = in_groups(view, events, states), group_columns(view)
    parts = [_exact(placed, group, name, measure) for name, measure in wanted.items()]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)


def _exact(events: DataFrame, group: list[str], name: str, measure: Measure) -> DataFrame:
    value = F.col(str(measure.column))
    if isinstance(measure, Quantile):
        # Ordered and not gathered: a group may be larger than memory.
        by = Window.partitionBy(*group)
        ranked = events.where(value.isNotNull()).select(
            *group,
            value.cast("double").alias(exact_column(name)),
            (F.row_number().over(by.orderBy(value.cast("double"))) - 1).alias("_rank"),
            F.count(F.lit(1)).over(by).alias("_n"),
        )
        return ranked.where(F.col("_rank") == F.floor(F.lit(float(measure.q)) * (F.col("_n") - 1))).drop(
            "_rank", "_n"
        )
    return events.groupBy(*group).agg(F.count_distinct(value).cast("double").alias(exact_column(name)))


@dataclass(frozen=True)
class Judged:
    """A frame with a row per group: `_served`, `_truth` and the other variants as structs, a verdict, and causes.

    Each number has its errors in columns of its own: see `error_column`.
    """

    frame: DataFrame
    numbers: tuple[str, ...]
    values: tuple[str, ...]
    bounds: dict[str, float]


def error_column(number: str, kind: str) -> str:
    """`kind` is absolute, relative, smape or right."""
    return f"_{kind}_{number}"


def shown_name(number: str) -> str:
    """What people read: how many events a group has is a number too, with a name that is nobody else's."""
    return "events" if number == EVENTS_SHOWN else number


def judge(
    served_view: View, right_view: View, variants: Variants, exact: DataFrame | None, copies: DataFrame | None
) -> Judged:
    """`copies` has how many copies of each kind each group was served with, as columns."""
    measures = shared_measures(served_view, right_view)
    values = (EVENTS_SHOWN, *measures)
    frames = {
        "_served": presented(served_view, variants.served, measures),
        "_truth": presented(right_view, variants.truth, measures),
        "_streamed": presented(served_view, variants.streamed, measures),
    }
    if variants.deployed is not None:
        frames["_deployed"] = presented(served_view, variants.deployed, measures)
    if variants.looked_up is not None:
        frames["_looked_up"] = presented(served_view, variants.looked_up, measures)
    types = {field.name: field.dataType.typeName() for field in frames["_served"].schema}
    bounds = {name: error for name in measures if (error := served_view.measures[name].error) is not None}
    judging = _Judging(served_view, values, types, bounds, tuple(frames), copies is not None)
    return Judged(
        judging.judged(judging.beside(frames, exact, copies)),
        tuple(name for name in values if types[name] in NUMBERS),
        values,
        bounds,
    )


@dataclass(frozen=True)
class _Judging:
    view: View
    values: tuple[str, ...]
    types: dict[str, str]
    bounds: dict[str, float]
    sides: tuple[str, ...]
    has_copies: bool

    def beside(
        self, frames: dict[str, DataFrame], exact: DataFrame | None, copies: DataFrame | None
    ) -> DataFrame:
        """One row per group, with a struct for every way that has it."""
        parts = [frame.withColumn("_side", F.lit(side)) for side, frame in frames.items()]
        structs = [
            F.first(F.when(F.col("_side") == side, F.struct(*self.values)), ignorenulls=True).alias(side)
            for side in frames
        ]
        if exact is not None:
            parts.append(exact.withColumn("_side", F.lit("exact")))
            structs += [
                F.first(exact_column(name), ignorenulls=True).alias(exact_column(name))
                for name in self.bounds
            ]
        if copies is not None:
            parts.append(copies.withColumn("_side", F.lit("copies")))
            structs += [
                F.coalesce(F.first(_quoted(kind), ignorenulls=True), F.lit(0)).alias(kind) for kind in COPIES
            ]
        whole = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
        return whole.groupBy(*group_columns(self.view)).agg(*structs)

    def judged(self, rows: DataFrame) -> DataFrame:
        served, truth = F.col("_served").isNotNull(), F.col("_truth").isNotNull()
        verdict = (
            F.when(~truth & served, "extra").when(truth & ~served, "missing")
            .when(self._same("_served", "_truth"), "equal").otherwise("different")
        )  # fmt: skip
        # A group that only another way has is neither served nor right.
        judged = rows.where(served | truth).withColumn(VERDICT, verdict)
        for name in self.values:
            judged = judged.withColumns(
                self._errors(name) if self.types[name] in NUMBERS else self._right(name)
            )
        return judged.withColumn(CAUSES, self._causes())

    def _errors(self, name: str) -> dict[str, Column]:
        """How far what is served is from what is right. A group that one side lacks is wrong by all of it."""
        served = F.coalesce(F.col(f"_served.{name}"), F.lit(0))
        right = F.coalesce(
            F.col(exact_column(name)) if name in self.bounds else F.col(f"_truth.{name}"), F.lit(0)
        )
        off, size = F.abs(served - right).cast("double"), F.abs(right).cast("double")
        both = size + F.abs(served).cast("double")
        identical = served.eqNullSafe(right)
        absolute = F.when(identical, F.lit(0.0)).otherwise(off)
        relative = F.when(identical, F.lit(0.0)).when(size > 0, off / size).otherwise(F.lit(1.0))
        return self._right(name, relative, off) | {
            error_column(name, "absolute"): absolute,
            error_column(name, "relative"): relative,
            error_column(name, "smape"): F.when(identical | (both == 0), F.lit(0.0)).otherwise(
                2 * off / both
            ),
        }

    def _right(
        self, name: str, relative: Column | None = None, off: Column | None = None
    ) -> dict[str, Column]:
        """Equal; of an approximate number, within its bound of the exact one."""
        bound = self.bounds.get(name)
        if bound is None or relative is None or off is None:
            right = same(F.col(f"_served.{name}"), F.col(f"_truth.{name}"), self.types[name])
        else:
            # A count is a whole number: half of one is rounding.
            right = F.coalesce((relative <= bound * (1 + 1e-9)) | (off <= 0.5), F.lit(False))
        both = F.col("_served").isNotNull() & F.col("_truth").isNotNull()
        return {error_column(name, "right"): both & right}

    def _causes(self) -> Column:
        """By evidence: whatever is not served as the log says that it should be is unexplained."""
        differs = F.col(VERDICT) != "equal"
        as_expected = self._same("_served", "_streamed")
        evidence: dict[str, Column] = (
            {kind: F.col(_quoted(kind)) > 0 for kind in COPIES} if self.has_copies else {}
        )
        if "_deployed" in self.sides:
            evidence[DEFINITION] = ~self._same("_truth", "_deployed")
        if "_looked_up" in self.sides:
            evidence[LOOKUP] = ~self._same(
                "_deployed" if "_deployed" in self.sides else "_truth", "_looked_up"
            )
        found = {cause: differs & as_expected & shown for cause, shown in evidence.items()}
        any_shown = reduce(or_, evidence.values(), F.lit(False))
        beyond = [~F.col(error_column(name, "right")) for name in self.bounds]
        found[UNEXPLAINED] = (differs & ~(as_expected & any_shown)) | (
            ~differs & reduce(or_, beyond, F.lit(False))
        )
        inexact = [F.col(error_column(name, "absolute")) > 0 for name in self.bounds]
        found[SKETCH] = ~differs & reduce(or_, inexact, F.lit(False)) & ~reduce(or_, beyond, F.lit(False))
        floats = [name for name in self.values if self.types[name] in FLOATING and name not in self.bounds]
        bits = [~F.col(f"_served.{name}").eqNullSafe(F.col(f"_truth.{name}")) for name in floats]
        found[ROUNDING] = ~differs & reduce(or_, bits, F.lit(False))
        return F.array_compact(F.array(*(F.when(shown, F.lit(cause)) for cause, shown in found.items())))

    def _same(self, one: str, other: str) -> Column:
        """Whether two variants give a group the same numbers, or both do not have it."""
        neither = F.col(one).isNull() & F.col(other).isNull()
        both = F.col(one).isNotNull() & F.col(other).isNotNull()
        equal = [
            same(F.col(f"{one}.{name}"), F.col(f"{other}.{name}"), self.types[name]) for name in self.values
        ]
        return neither | (both & reduce(and_, equal))


def _quoted(name: str) -> str:
    return f"`{name}`"
