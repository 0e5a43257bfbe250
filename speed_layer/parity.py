"""Compares versions of a view, with each other and with a recompute of the log, at the same cut."""

from datetime import date, datetime
from typing import TYPE_CHECKING

from braid.deploy.store import Version
from braid.errors import BraidError
from braid.merge.spark import served_states
from braid.parity import Parity, compare_states
from braid.recompute import truth
from braid.runtime.settings import Settings
from braid.tables.delta_log import newest_version
from braid.tables.storage import Storage
from braid.tables.view_tables import ViewTables, pinned, throughs
from speed_layer.stream.tail import newest_tail_commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    batch = truth(spark, settings, view, cut, from_day=version.from_day)
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
