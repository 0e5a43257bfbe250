"""Whether two ways to the same numbers agree, group by group, at the same cut."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from braid.deployment import Version
from braid.errors import BraidError
from braid.log import Log
from braid.merged import recomputed_states, served_states
from braid.settings import Settings
from braid.states import EVENTS
from braid.storage import Storage
from braid.transactions import newest_version
from braid.view import View
from braid.view_tables import ViewTables, bounds, pinned, throughs
from speed_layer.lookups import Lookups
from speed_layer.tail import newest_tail_commit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EXAMPLES = 5
# Sums of floating-point numbers depend on the order of adding, in their last digits.
FLOAT_TOLERANCE = 1e-9
EVENTS_SHOWN = "_events"


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

    @property
    def holds(self) -> bool:
        return self.not_comparable is None and self.equal == self.groups

    def says(self) -> str:
        if self.not_comparable:
            return f"v{self.version} cannot be compared with {self.against}: {self.not_comparable}"
        if self.holds:
            return f"v{self.version} equals {self.against} in all {self.groups:,} groups"
        return (
            f"v{self.version} differs from {self.against}: of {self.groups:,} groups {self.different:,} different, "
            f"{self.missing:,} missing, {self.extra:,} extra"
        )


def compare(
    spark: "SparkSession", settings: Settings, version: Version, active: Version | None
) -> list[Parity]:
    """A version against the active one, and against a recompute of its own definition from the log."""
    other = active if active is not None and active.number != version.number else None
    unreadable = other is not None and _complete(spark, settings, other) is None
    cut = common_cut(spark, settings, [version] if other is None or unreadable else [version, other])
    mine = served_states(spark, version.view, _tables(settings, version), cut).persist()
    try:
        found = [against_batch(spark, settings, version, mine, cut)]
        if unreadable and other is not None:
            reason = "its tables are lost, or it has not read its history to the end"
            found.append(Parity(version.view.name, version.number, _named(other), cut, not_comparable=reason))
        elif other is not None:
            found.append(against_version(spark, settings, version, other, mine, cut))
        return found
    finally:
        mine.unpersist()


def against_batch(
    spark: "SparkSession", settings: Settings, version: Version, mine: "DataFrame", cut: datetime
) -> Parity:
    view = version.view
    lookups = Lookups(spark, settings, {})
    log = Log(view.source, settings)
    batch = recomputed_states(spark, view, log, cut, version.from_day, lookups.base_of)
    parity = Parity(view.name, version.number, "a batch recompute of the log", cut)
    return compare_states(parity, view, mine, view, batch)


def against_version(
    spark: "SparkSession",
    settings: Settings,
    version: Version,
    other: Version,
    mine: "DataFrame",
    cut: datetime,
) -> Parity:
    from pyspark.sql import functions as F

    theirs = served_states(spark, other.view, _tables(settings, other), cut)
    if version.from_day is not None:
        theirs = theirs.where(F.col("day") >= F.lit(version.from_day))
    parity = Parity(version.view.name, version.number, _named(other), cut)
    return compare_states(parity, version.view, mine, other.view, theirs)


def compare_states(
    parity: Parity, view: View, mine: "DataFrame", other_view: View, theirs: "DataFrame"
) -> Parity:
    """Compares what is presented, because two sketches of the same registers may be two texts of bytes."""
    from pyspark.sql import functions as F

    if reason := _why_not(view, other_view):
        return replace(parity, not_comparable=reason)
    measures = [name for name in view.measures if view.measures[name] == other_view.measures.get(name)]
    group = ["day", *bounds(view), *view.keys]
    left = _presented(view, mine, measures).withColumn("_side", F.lit(0))
    right = _presented(other_view, theirs, measures).withColumn("_side", F.lit(1))
    values = [EVENTS_SHOWN, *measures]
    sides = [
        F.first(F.when(F.col("_side") == side, F.struct(*values)), ignorenulls=True).alias(name)
        for side, name in enumerate(("mine", "theirs"))
    ]
    types = dict(left.dtypes)
    same = F.lit(True)
    for name in values:
        same = same & _same(F.col(f"mine.{name}"), F.col(f"theirs.{name}"), types[name])
    both = F.col("mine").isNotNull() & F.col("theirs").isNotNull()
    verdict = (
        F.when(F.col("theirs").isNull(), "extra").when(F.col("mine").isNull(), "missing")
        .when(both & same, "equal").otherwise("different")
    )  # fmt: skip
    judged = left.unionByName(right).groupBy(*group).agg(*sides).withColumn("_verdict", verdict).persist()
    try:
        counts = {row["_verdict"]: row["count"] for row in judged.groupBy("_verdict").count().collect()}
        wrong = judged.where("_verdict <> 'equal'").orderBy(*group).limit(EXAMPLES).collect()
    finally:
        judged.unpersist()
    examples = tuple(row.asDict(recursive=True) for row in wrong)
    return replace(
        parity, groups=sum(counts.values()), measures=tuple(measures), examples=examples,
        **{name: counts.get(name, 0) for name in ("equal", "different", "missing", "extra")},
    )  # fmt: skip


def common_cut(spark: "SparkSession", settings: Settings, versions: list[Version]) -> datetime:
    """The last epoch that all of them hold completely, and that none of their bases goes beyond."""
    cuts: list[datetime] = []
    beyond: list[datetime] = []
    for version in versions:
        tables = _tables(settings, version)
        complete = _complete(spark, settings, version)
        if complete is None:
            raise BraidError(
                f"version {version.number} of view {version.view.name!r} has not read its history to the end: let "
                f"`braid kappa replay {version.view.name}` or `braid stream {version.view.name}` finish first."
            )
        cuts.append(complete)
        beyond += throughs(pinned(spark, tables.base)).values()
    cut = min(cuts)
    if beyond and max(beyond) > cut:
        raise BraidError(
            f"the versions of view {versions[0].view.name!r} cannot be compared yet: one is complete up to {cut}, and "
            f"the base of another covers {max(beyond)}. `braid stream {versions[0].view.name} --once` brings them "
            "to the same place."
        )
    return cut


def days_lost(
    spark: "SparkSession", settings: Settings, version: Version, active: Version | None
) -> tuple[date, ...]:
    """Days that the active version serves and a version that was replayed from a later day does not have."""
    from pyspark.sql import functions as F

    if active is None or version.from_day is None or active.number == version.number:
        return ()
    if _complete(spark, settings, active) is None:
        return ()
    if active.from_day is not None and active.from_day >= version.from_day:
        return ()
    states = served_states(spark, active.view, _tables(settings, active))
    days = states.where(F.col("day") < F.lit(version.from_day)).select("day").distinct().collect()
    return tuple(sorted(row.day for row in days))


def _complete(spark: "SparkSession", settings: Settings, version: Version) -> datetime | None:
    """The last epoch that a version holds completely; None when its tables are not there, or are being filled."""
    tables = _tables(settings, version)
    if newest_version(Storage(spark), tables.tail) is None:
        return None
    last = newest_tail_commit(spark, tables)
    return last.complete if last else None


def _named(version: Version) -> str:
    return f"the active v{version.number}"


def _tables(settings: Settings, version: Version) -> ViewTables:
    return ViewTables(settings, version.view.name, version.number)


def _presented(view: View, states: "DataFrame", measures: list[str]) -> "DataFrame":
    from pyspark.sql import functions as F

    numbers = [
        view.measures[name].present(F.col(view.measures[name].state_name)).alias(name) for name in measures
    ]
    events = F.col(EVENTS.state_name).alias(EVENTS_SHOWN)
    return states.select("day", *bounds(view), *view.keys, events, *numbers)


def _same(mine: "Column", theirs: "Column", type_name: str) -> "Column":
    from pyspark.sql import functions as F

    equal = mine.eqNullSafe(theirs)
    if type_name not in ("double", "float"):
        return equal
    room = F.lit(FLOAT_TOLERANCE) * F.greatest(F.abs(mine), F.abs(theirs))
    return F.coalesce(equal | (F.abs(mine - theirs) <= room), F.lit(False))


def _why_not(view: View, other: View) -> str | None:
    if set(view.keys) != set(other.keys):
        return f"its keys are {view.keys!r} and the other's {other.keys!r}"
    if view.window.state_spec() != other.window.state_spec():
        return f"its windows are {view.window.describe()} and the other's {other.window.describe()}"
    return None
