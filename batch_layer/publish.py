"""Days that are computed and not published yet, and how they get into the base: in one commit, and no cut goes back."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from batch_layer.days import Accuracy, DayRecord, Gate, Publish
from batch_layer.gates.profile import OutputProfile, no_states
from batch_layer.tasks import DayResult, ViewDays
from braid.cut import effective
from braid.define.view import View
from braid.log.table import Log
from braid.runtime.spark import from_arrow
from braid.states.spark_calendar import days_and_moments, on_days
from braid.tables.commits import BaseCommit, newest_tail_commit
from braid.tables.conditional import Seen, again_while_overtaken, can_commit_here, commit, commit_here
from braid.tables.tail_and_base import refuse_lost_base, refuse_other_log, replay_cut
from braid.tables.view_tables import ViewTables, base_columns


def publish(
    spark: SparkSession,
    tables: ViewTables,
    view: View,
    states: DataFrame | pa.Table,
    cuts: Mapping[date, datetime],
    with_states: Collection[date],
) -> dict[date, datetime]:
    """Replaces days by their states. Day -> the cut that it covers then: a later one may be there.

    `with_states` are the days that have any. A day that covers a later cut already is left out of the commit. States
    that are in this process are written by it, where it can.
    """
    if isinstance(states, pa.Table) and not can_commit_here(tables.base):
        states = from_arrow(spark, states)

    def attempt(seen: Seen) -> dict[date, datetime]:
        # A stream may have begun since the cuts were taken, and have stored its history under a later one.
        there, replayed = seen.pin().throughs(), replay_cut(tables)
        covered = {day: effective(cut, there.get(day), replayed) for day, cut in cuts.items()}
        if ours := {day: cut for day, cut in cuts.items() if covered[day] == cut}:
            _replace(spark, seen, view, states, ours, with_states)
        return covered

    refuse_lost_base(tables)
    refuse_other_log(Log(view.source, tables.settings).table, tables, newest_tail_commit(tables.tail))
    return again_while_overtaken(tables.base, attempt) if cuts else {}


def _replace(
    spark: SparkSession,
    seen: Seen,
    view: View,
    states: DataFrame | pa.Table,
    cuts: Mapping[date, datetime],
    with_states: Collection[date],
) -> None:
    said = BaseCommit(max(cuts.values()), "batch", days=cuts)
    if isinstance(states, pa.Table):
        commit_here(_rows_here(states, cuts, with_states), on_days(cuts), seen, said)
        return
    rows = _rows(spark, view, states, cuts, with_states)
    # A file for each day. Only where there are many, rows have to change places for it; by a number that is given, as
    # Spark would put what is small into one task, which then writes one file after another.
    writers = min(len(cuts), spark.sparkContext.defaultParallelism)
    gathered = rows.coalesce(1) if writers == 1 else rows.repartition(writers, "day")
    writer = gathered.write.format("delta").mode("overwrite").option("replaceWhere", on_days(cuts))
    commit(spark, writer, seen, said)


def _rows_here(states: pa.Table, cuts: Mapping[date, datetime], with_states: Collection[date]) -> pa.Table:
    """As `_rows` gives them."""
    chosen = states.filter(pc.is_in(states["day"], pa.array(cuts, pa.date32())))
    empty = {day: cut for day, cut in cuts.items() if day not in with_states}
    # What a state never lacks, the row of a day without states does.
    schema = pa.schema([column.with_nullable(True) for column in states.schema])
    said = {"day": list(empty), "through": list(empty.values())}
    markers = {
        column.name: pa.array(said.get(column.name, [None] * len(empty)), column.type) for column in schema
    }
    return pa.concat_tables([chosen.cast(schema), pa.table(markers, schema=schema)])


def _rows(
    spark: SparkSession,
    view: View,
    states: DataFrame,
    cuts: Mapping[date, datetime],
    with_states: Collection[date],
) -> DataFrame:
    """The states of these days. A day without events is published too, as one row that carries its cut."""
    empty = {day: cut for day, cut in cuts.items() if day not in with_states}
    chosen = states.where(on_days(cuts))
    if not empty:
        return chosen
    types = {column.name: column.dataType for column in states.schema}
    markers = days_and_moments(spark, empty, "through").select(
        *(
            F.col(name) if name in ("day", "through") else _no_state(types[name]).alias(name)
            for name in base_columns(view)
        )
    )
    return markers if len(empty) == len(cuts) else chosen.unionByName(markers)


def _no_state(kind: DataType) -> Column:
    """What stands for a state in the row of a day without events. Parts of a state that are never null are numbers."""
    if not isinstance(kind, StructType):
        return F.lit(None).cast(kind)
    parts = (F.lit(None if part.nullable else 0).cast(part.dataType).alias(part.name) for part in kind)
    return F.struct(*parts)


@dataclass(frozen=True)
class Done:
    """What became of a day, and what there is to record of it."""

    result: DayResult
    record: DayRecord | None


@dataclass(frozen=True)
class MadeDays:
    """Days of a view that are computed and not published yet."""

    days: ViewDays
    states: DataFrame | pa.Table
    events: Mapping[date, int]
    copies: Mapping[date, int]
    profiles: Mapping[date, OutputProfile]
    accuracy: Mapping[date, Accuracy]
    lookups: Mapping[str, str]

    def profile(self, day: date) -> OutputProfile:
        return self.profiles.get(day) or no_states(self.days.view)

    def done(self, day: date, through: datetime, gate: Gate, at: datetime) -> Done:
        """A day whose publish left it with a cut: with another one, if somebody else was later."""
        name = self.days.view.name
        if through != self.days.cuts[day]:
            why = "another run has published a later cut"
            return Done(DayResult(name, day, "up to date", through, why), None)
        rows, events = self.profile(day).rows, self.events.get(day, 0)
        result = DayResult(name, day, "published", through, "", events, rows, self.copies[day])
        return Done(result, DayRecord(day, self.publish(day, at), gate))

    def publish(self, day: date, at: datetime) -> Publish:
        profile = self.profile(day)
        return Publish(
            self.days.cuts[day], at, self.events.get(day, 0), profile.rows, self.copies[day], profile.totals,
            self.accuracy.get(day), self.lookups,
        )  # fmt: skip
