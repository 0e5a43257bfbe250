"""Compares a version of a view, at one cut, with the truth of its log or with another version."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid import cut as cuts
from braid.deploy.versions import Version
from braid.errors import BraidError
from braid.log.lookups import LookupTables
from braid.log.table import Log
from braid.merge.spark import served_states
from braid.parity import Parity, compare_states
from braid.recompute import accepted_rows, recompute, truth, upto
from braid.runtime.settings import Settings
from braid.tables import delta_rs
from braid.tables.commits import TailCommit, described
from braid.tables.together import is_base_lost
from braid.tables.view_tables import ViewTables


def with_truth(
    spark: SparkSession,
    settings: Settings,
    version: Version,
    cut: datetime,
    days: Sequence[date] | Mapping[date, datetime] | None = None,
) -> Parity:
    """What is served of a version, of all its days or of some, against the log alone; of days with cuts up to those."""
    view, since = version.view, version.from_day if days is None else None
    parity = Parity(view.name, version.number, "a batch recompute of the log", cut)
    if isinstance(days, Mapping):
        mine = served_states(spark, view, _tables(settings, version), days).persist()
    else:
        mine = states_of(spark, settings, version, cut, days).persist()
    try:
        right = truth(spark, settings, view, cut, days, since)
        found = compare_states(parity, view, mine, view, right)
        if found.holds:
            return found
        # Every row of the log, and lookups as they are now: what a stream that reads it from the beginning makes of it.
        rows = accepted_rows(spark, Log(view.source, settings), cut, days, since)
        rows = upto(rows, days) if isinstance(days, Mapping) else rows
        streamed = recompute(view, rows, LookupTables(spark, settings)).states
        return replace(found, as_streamed=compare_states(parity, view, mine, view, streamed).holds)
    finally:
        mine.unpersist()


def with_version(
    spark: SparkSession, settings: Settings, version: Version, other: Version, cut: datetime | None = None
) -> Parity:
    """A version against another one, from the first day that it has itself."""
    name = f"{'the active ' if other.phase == 'active' else ''}v{other.number}"
    if complete_upto(spark, settings, other) is None:
        reason = "its tables are lost, or it has not read its history to the end"
        at = comparable_cut(spark, settings, [version])
        return Parity(version.view.name, version.number, name, at, not_comparable=reason)
    at = cut or comparable_cut(spark, settings, [version, other])
    mine, theirs = (states_of(spark, settings, one, at) for one in (version, other))
    if version.from_day is not None:
        theirs = theirs.where(F.col("day") >= F.lit(version.from_day))
    parity = Parity(version.view.name, version.number, name, at)
    return compare_states(parity, version.view, mine, other.view, theirs)


def states_of(
    spark: SparkSession,
    settings: Settings,
    version: Version,
    cut: datetime | None = None,
    days: Sequence[date] | None = None,
) -> DataFrame:
    """What readers of a version get, up to a cut."""
    served = served_states(spark, version.view, _tables(settings, version), cut)
    return served if days is None else served.where(F.col("day").isin(list(days)))


def comparable_cut(spark: SparkSession, settings: Settings, versions: Sequence[Version]) -> datetime:
    """The last epoch that all of them hold completely, and that none of their bases goes beyond."""
    complete: list[datetime] = []
    covered: list[datetime] = []
    for version in versions:
        upto = complete_upto(spark, settings, version)
        if upto is None:
            raise BraidError(
                f"version {version.number} of view {version.view.name!r} has not read its history to the end: let "
                f"`braid kappa replay {version.view.name}` or `braid stream {version.view.name}` finish first."
            )
        complete.append(upto)
        covered += delta_rs.throughs(_tables(settings, version).base).values()
    cut = cuts.comparable(complete, covered)
    if cut is None:
        raise BraidError(
            f"the versions of view {versions[0].view.name!r} cannot be compared yet: one is complete up to "
            f"{min(complete)}, and the base of another covers {max(covered)}. "
            f"`braid stream {versions[0].view.name} --once` brings them to the same place."
        )
    return cut


def complete_upto(spark: SparkSession, settings: Settings, version: Version) -> datetime | None:
    """The last epoch that a version holds completely; None when its tables are not there, or are being filled."""
    if is_base_lost(_tables(settings, version)):
        return None
    commits = described(_tables(settings, version).tail, TailCommit.from_json)
    return next((commit.complete for _, commit in commits), None)


def _tables(settings: Settings, version: Version) -> ViewTables:
    return ViewTables(settings, version.view.name, version.number)
