"""The same days computed in several ways: as they are served, as a batch would, and as the stream should have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.define.fingerprint import fingerprint, used_lookups
from braid.define.schema import quote
from braid.define.view import View
from braid.log.events import TableOf, first_copies, view_events
from braid.log.lookups import LookupTables
from braid.log.table import Log
from braid.merge.spark import base_states, beyond
from braid.parity import why_not_comparable
from braid.recompute import recompute
from braid.runtime.settings import Settings
from braid.states import state_columns
from braid.states.spark import merge, prepare
from braid.states.spark_calendar import on_days, timestamp
from braid.tables.commits import TailCommit
from braid.tables.delta_rs import Pinned, pin_at
from braid.tables.spark_tables import pinned
from braid.tables.view_tables import bounds
from serving_layer.accuracy.explain.compared_rows import ComparedDays, Copies

STRETCH = "_stretch"


@dataclass(frozen=True)
class Variants:
    """States of the compared days by name.

    `served` against `truth` is the comparison. `streamed` is what the log says that should be served, with all that is
    known to differ; `deployed` and `looked_up` are the truth with one such thing as it is served, where it differs.
    """

    served: DataFrame
    truth: DataFrame
    streamed: DataFrame
    deployed: DataFrame | None = None
    looked_up: DataFrame | None = None


@dataclass(frozen=True)
class Stretch:
    """Batches of a stream that joined their events to the same versions.

    They end within the epoch `upto`, before the version `before` of the log; the newest has no end.
    """

    versions: Mapping[str, str]
    upto: datetime | None = None
    before: int | None = None


@dataclass(frozen=True)
class Computing:
    """What is needed to compute a view's days again from rows of its log."""

    spark: SparkSession
    settings: Settings
    known: ComparedDays
    today: View
    rows: DataFrame

    @property
    def deployed(self) -> View:
        return self.known.version.view

    @property
    def definition_changed(self) -> bool:
        """Whether the definition of today gives other numbers, in the same groups."""
        return (
            fingerprint(self.today) != self.known.version.fingerprint
            and why_not_comparable(self.today, self.deployed) is None
        )

    @property
    def judged_by(self) -> View:
        """The definition that is right: today's, unless its groups are others, which only a replay can make."""
        return self.today if self.definition_changed else self.deployed

    def variants(self, served: DataFrame, copies: Copies | None) -> Variants:
        firsts = first_copies(self.rows, self.deployed.source)
        truth = self._at_the_cuts(self.judged_by, firsts)
        deployed = self._at_the_cuts(self.deployed, firsts) if self.definition_changed else None
        plain = deployed if deployed is not None else truth
        looked_up = self._as_looked_up(firsts) if used_lookups(self.deployed) else None
        if copies is None:
            return Variants(served, truth, plain if looked_up is None else looked_up, deployed, looked_up)
        counted = self.rows.join(copies.left_out, on=["_partition", "_offset"], how="left_anti")
        streamed = (
            self._at_the_cuts(self.deployed, counted) if looked_up is None else self._as_looked_up(counted)
        )
        return Variants(served, truth, streamed, deployed, looked_up)

    def _at_the_cuts(self, view: View, rows: DataFrame) -> DataFrame:
        """As the batch layer does it: lookups as they were at each day's cut."""
        parts = [
            recompute(view, rows.where(on_days(days)), LookupTables(self.spark, self.settings, cut)).states
            for cut, days in self.known.cuts.items()
        ]
        return _union(parts)

    def _as_looked_up(self, rows: DataFrame) -> DataFrame:
        """Each event joined to the versions that its publish, or its batch of the stream, had read."""
        view, tail = self.deployed, pin_at(self.known.tables.tail)
        known = stretches(tail_commits(tail)) if tail is not None else []
        numbered_rows = numbered(self.spark, Log(view.source, self.settings), rows, known)
        parts = [
            prepare(view, view_events(view, numbered_rows.where(where), of))
            for where, of in self._readings(known)
        ]
        return merge(view, _union(parts))

    def _readings(self, known: Sequence[Stretch]) -> Iterator[tuple[str, TableOf]]:
        published = {one.deduplicated for one in self.known.days if one.deduplicated is not None}
        in_base = []
        for cut in sorted(published):
            days = [one.day for one in self.known.days if one.deduplicated == cut]
            in_base.append(f"({on_days(days)} and _epoch <= {timestamp(cut)})")
            yield in_base[-1], LookupTables(self.spark, self.settings, cut).table_of
        rest = f"not ({' or '.join(in_base) or 'false'})"
        for number, stretch in enumerate(known):
            of = LookupTables(self.spark, self.settings, said=stretch.versions).table_of
            yield f"{rest} and {STRETCH} = {number}", of
        if not known:
            yield rest, LookupTables(self.spark, self.settings, self.known.newest_cut).table_of


def served(spark: SparkSession, known: ComparedDays) -> DataFrame:
    """What a reader gets: the base of each day, and the tail beyond it."""
    view, days = known.version.view, [one.day for one in known.days]
    through = {one.day: one.through for one in known.days if one.through is not None}
    parts = []
    if known.base_version is not None:
        base = pinned(spark, known.tables.base, known.base_version)
        parts.append(base_states(view, base.where(F.col("day").isin(days))).select(*_columns(view)))
    if known.limit is not None:
        tail = _tail(spark, known, dict.fromkeys(days, known.limit))
        parts.append(beyond(tail, through).select(*_columns(view)))
    return merge(view, _union(parts))


def streamed_alone(spark: SparkSession, known: ComparedDays) -> DataFrame:
    """What a reader would get if nothing had been published: the tail."""
    view = known.version.view
    tail = _tail(spark, known, {one.day: one.cut for one in known.days})
    return merge(view, tail.select(*_columns(view)))


def _tail(spark: SparkSession, known: ComparedDays, cuts: Mapping[date, datetime]) -> DataFrame:
    """The tail's rows of days up to their cuts."""
    limits: dict[datetime, list[date]] = {}
    for day, cut in cuts.items():
        limits.setdefault(cut, []).append(day)
    where = (f"(epoch <= {timestamp(cut)} and {on_days(days)})" for cut, days in limits.items())
    return pinned(spark, known.tables.tail, known.tail_version).where(" or ".join(where))


def _columns(view: View) -> list[str]:
    return ["day", *bounds(view), *map(quote, (*view.keys, *state_columns(view)))]


def _union(parts: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), parts)


def tail_commits(tail: Pinned) -> Iterator[TailCommit]:
    """The batches that a tail still knows of, newest first; folds rewrite rows and join nothing."""
    for version in range(tail.version, -1, -1):
        found = tail.logged(version)
        if found is None:
            return
        if found.mark is not None and not found.mark.fold:
            yield found.mark


def stretches(commits: Iterable[TailCommit]) -> list[Stretch]:
    """Oldest first."""
    found: list[Stretch] = []
    for commit in sorted(commits, key=lambda commit: commit.batch):
        # History that is being read is of any epoch up to the replay's cut.
        before = commit.position.version if commit.position.is_between_commits else None
        stretch = Stretch(commit.lookups, commit.epoch or commit.replay_cut, before)
        if found and found[-1].versions == commit.lookups:
            found.pop()
        found.append(stretch)
    return [*found[:-1], Stretch(found[-1].versions)] if found else []


def numbered(spark: SparkSession, log: Log, rows: DataFrame, known: Sequence[Stretch]) -> DataFrame:
    """Rows of a log with the number of the stretch in which a stream read them."""
    number, marked = F.lit(0), rows
    for index, stretch in enumerate(known[:-1]):
        if stretch.upto is None:
            continue
        is_later = F.expr(f"_epoch > {timestamp(stretch.upto)}")
        if stretch.before is not None:
            # Of the epoch in which the versions changed, what the log held then was read before.
            there = pinned(spark, log.table, stretch.before - 1).where(f"_epoch = {timestamp(stretch.upto)}")
            flag = f"_read_before_{index}"
            places = there.select("_partition", "_offset", F.lit(True).alias(flag))
            marked = marked.join(places, on=["_partition", "_offset"], how="left")
            is_later |= F.expr(f"_epoch = {timestamp(stretch.upto)}") & F.col(flag).isNull()
        number = number + is_later.cast("int")
    return marked.select(*rows.columns, number.alias(STRETCH))
