"""Whether two tables of a view's states are equal, group by group: a version's and the truth, or another version's."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.comparable import complete_upto, when_comparable
from braid.define.view import View
from braid.deploy.versions import Version
from braid.log.lookups import LookupTables
from braid.log.table import Log
from braid.measures.base import FLOAT_TOLERANCE
from braid.merge.spark import served_states
from braid.recompute import accepted_rows, recompute, truth, upto
from braid.runtime.settings import Settings
from braid.states import EVENTS
from braid.tables.view_tables import ViewTables, bounds

EXAMPLES = 5
EVENTS_SHOWN = "_events"
VERDICT = "_verdict"
# Spark's types of what can be further or less far off.
NUMBERS = ("long", "integer", "short", "byte", "double", "float", "decimal")
VERDICTS = ("equal", "different", "missing", "extra")


@dataclass(frozen=True)
class Parity:
    """A comparison. A group is a pane (or partial session) of one day with its keys."""

    view: str
    version: int
    against: str
    cut: datetime
    groups: int = 0
    equal: int = 0
    different: int = 0
    missing: int = 0
    extra: int = 0
    examples: tuple[Mapping[str, Any], ...] = ()
    not_comparable: str | None = None
    measures: tuple[str, ...] = ()
    # Whether a difference from the truth is what a stream makes of the log: it counts copies, and joins newest lookups.
    as_streamed: bool = False

    @property
    def holds(self) -> bool:
        return self.not_comparable is None and self.equal == self.groups

    def says(self) -> str:
        if self.not_comparable:
            return f"v{self.version} cannot be compared with {self.against}: {self.not_comparable}"
        if self.holds:
            return f"v{self.version} equals {self.against} in all {self.groups:,} groups"
        why = (
            " (copies of events, or lookups that changed: a stream reads them so)" if self.as_streamed else ""
        )
        return (
            f"v{self.version} differs from {self.against}: of {self.groups:,} groups {self.different:,} different, "
            f"{self.missing:,} missing, {self.extra:,} extra{why}"
        )


def compare_states(
    parity: Parity, view: View, mine: DataFrame, other_view: View, theirs: DataFrame
) -> Parity:
    """Fills a comparison in with what two tables of states say."""
    if reason := why_not_comparable(view, other_view):
        return replace(parity, not_comparable=reason)
    found = judged(view, mine, other_view, theirs).persist()
    try:
        counts = {row[VERDICT]: row["count"] for row in found.groupBy(VERDICT).count().collect()}
        differs = found.where(f"{VERDICT} <> 'equal'").orderBy(*group_columns(view)).limit(EXAMPLES)
        wrong = differs.collect() if counts.keys() - {"equal"} else []
    finally:
        found.unpersist()
    return replace(
        parity, groups=sum(counts.values()), measures=tuple(shared_measures(view, other_view)),
        examples=tuple(row.asDict(recursive=True) for row in wrong),
        **{name: counts.get(name, 0) for name in VERDICTS},
    )  # fmt: skip


def judged(view: View, mine: DataFrame, other_view: View, theirs: DataFrame) -> DataFrame:
    """Each group with both sides and the verdict on them.

    What is presented is compared, because two sketches of the same registers may be two texts of bytes.
    """
    measures = shared_measures(view, other_view)
    left = presented(view, mine, measures).withColumn("_side", F.lit(0))
    right = presented(other_view, theirs, measures).withColumn("_side", F.lit(1))
    values = [EVENTS_SHOWN, *measures]
    sides = [
        F.first(F.when(F.col("_side") == side, F.struct(*values)), ignorenulls=True).alias(name)
        for side, name in enumerate(("mine", "theirs"))
    ]
    types = dict(left.dtypes)
    alike = F.lit(True)
    for name in values:
        alike = alike & same(F.col(f"mine.{name}"), F.col(f"theirs.{name}"), types[name])
    both = F.col("mine").isNotNull() & F.col("theirs").isNotNull()
    verdict = (
        F.when(F.col("theirs").isNull(), "extra").when(F.col("mine").isNull(), "missing")
        .when(both & alike, "equal").otherwise("different")
    )  # fmt: skip
    return left.unionByName(right).groupBy(*group_columns(view)).agg(*sides).withColumn(VERDICT, verdict)


def group_columns(view: View) -> list[str]:
    return ["day", *bounds(view), *view.keys]


def shared_measures(view: View, other: View) -> list[str]:
    return [name for name in view.measures if view.measures[name] == other.measures.get(name)]


def presented(view: View, states: DataFrame, measures: list[str]) -> DataFrame:
    """Groups with the numbers of their states, and how many events they hold."""
    numbers = [
        view.measures[name].present(F.col(view.measures[name].state_name)).alias(name) for name in measures
    ]
    events = F.col(EVENTS.state_name).alias(EVENTS_SHOWN)
    return states.select("day", *bounds(view), *view.keys, events, *numbers)


def same(mine: Column, theirs: Column, type_name: str) -> Column:
    """Whether two numbers are equal, but for the order in which floating-point numbers were added."""
    equal = mine.eqNullSafe(theirs)
    if type_name not in ("double", "float"):
        return equal
    room = F.lit(FLOAT_TOLERANCE) * F.greatest(F.abs(mine), F.abs(theirs))
    # Of what is infinite, or no number, the room would be as well.
    apart = F.abs(mine - theirs)
    return F.coalesce(equal | ((apart <= room) & (apart < float("inf"))), F.lit(False))


def why_not_comparable(view: View, other: View) -> str | None:
    """What keeps the groups of two definitions from being the same groups."""
    if set(view.keys) != set(other.keys):
        return f"its keys are {view.keys!r} and the other's {other.keys!r}"
    if view.window.state_spec() != other.window.state_spec():
        return f"its windows are {view.window.describe()} and the other's {other.window.describe()}"
    return None


@dataclass(frozen=True)
class SideBySide:
    """A version's states and another one's, up to one cut. Whoever writes meanwhile, they stay as they are."""

    cut: datetime
    mine: DataFrame
    # None where there is no other, or it cannot be read.
    theirs: DataFrame | None


def side_by_side(
    spark: SparkSession, settings: Settings, version: Version, other: Version | None
) -> SideBySide:
    """Reads them where they can be compared; streams that are behind are waited for."""
    is_readable = other is not None and complete_upto(settings, other) is not None
    versions = [version, other] if other is not None and is_readable else [version]

    def read(cut: datetime) -> SideBySide:
        mine, *others = (states_of(spark, settings, one, cut) for one in versions)
        return SideBySide(cut, mine, others[0] if others else None)

    return when_comparable(settings, versions, read)


def with_truth(
    spark: SparkSession,
    settings: Settings,
    version: Version,
    mine: DataFrame,
    cut: datetime,
    days: Mapping[date, datetime] | None = None,
) -> Parity:
    """What is served of a version against the log alone, up to a cut, or of some days up to the cut of each."""
    view, since = version.view, version.from_day if days is None else None
    parity = Parity(view.name, version.number, "a batch recompute of the log", cut)
    mine = mine.persist()
    try:
        right = truth(spark, settings, view, cut, days, since)
        found = compare_states(parity, view, mine, view, right)
        if found.holds:
            return found
        # Every row of the log, and lookups as they are now: what a stream that reads it from the beginning makes of it.
        rows = accepted_rows(spark, Log(view.source, settings), cut, days, since)
        rows = upto(rows, days) if days is not None else rows
        streamed = recompute(view, rows, LookupTables(spark, settings)).states
        return replace(found, as_streamed=compare_states(parity, view, mine, view, streamed).holds)
    finally:
        mine.unpersist()


def with_version(version: Version, other: Version, states: SideBySide) -> Parity:
    """A version against another one, from the first day that it has itself."""
    name = f"{'the active ' if other.phase == 'active' else ''}v{other.number}"
    parity, theirs = Parity(version.view.name, version.number, name, states.cut), states.theirs
    if theirs is None:
        reason = "its tables are lost, or it has not read its history to the end"
        return replace(parity, not_comparable=reason)
    if version.from_day is not None:
        theirs = theirs.where(F.col("day") >= F.lit(version.from_day))
    return compare_states(parity, version.view, states.mine, other.view, theirs)


def states_of(
    spark: SparkSession, settings: Settings, version: Version, cut: datetime | None = None
) -> DataFrame:
    """What readers of a version get, up to a cut."""
    return served_states(spark, version.view, ViewTables.of(settings, version), cut)
