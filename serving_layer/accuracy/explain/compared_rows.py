"""Which days of a view can be compared, each up to which cut; their rows in the log, and the copies among these."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from braid.define.schema import quote
from braid.define.source import Source
from braid.define.view import View
from braid.define.windows import Session
from braid.deploy.versions import Version
from braid.errors import NotYet
from braid.log.contents import read_accepted
from braid.log.events import PLACE, TableOf, view_events
from braid.log.table import INBOX_PARTITION, Log
from braid.parity import group_columns
from braid.runtime.settings import Settings
from braid.states.calendar import micros
from braid.states.spark_calendar import on_days, pane_start, timestamp
from braid.tables.commits import TailCommit
from braid.tables.delta_rs import pin_at
from braid.tables.view_tables import ViewTables, bounds, published_cuts
from serving_layer.accuracy.lateness.event_times import Span, is_between
from serving_layer.accuracy.report.values import BEYOND, COPIES, REQUEUED, WITHIN


@dataclass(frozen=True)
class ComparedDay:
    """A day: the cut at which it is compared, and what its base covers.

    `deduplicated` is the cut up to which the batch layer published it, None where only the stream has counted;
    `in_tail` says that the stream's own rows of it are all still there.
    """

    day: date
    cut: datetime
    through: datetime | None = None
    deduplicated: datetime | None = None
    in_tail: bool = True


@dataclass(frozen=True)
class ComparedDays:
    """One version of a view, as far as it can be compared: its tables at one moment, whoever writes meanwhile.

    `limit` is the last epoch that is taken from the tail, and `skipped` says which days cannot be compared, and why.
    """

    version: Version
    tables: ViewTables
    tail_version: int | None
    base_version: int | None
    days: tuple[ComparedDay, ...]
    mark: TailCommit | None
    limit: datetime | None
    skipped: Mapping[date, str]

    @property
    def cuts(self) -> dict[datetime, list[date]]:
        """Days by their cut: usually there is one."""
        found: dict[datetime, list[date]] = {}
        for one in self.days:
            found.setdefault(one.cut, []).append(one.day)
        return found

    @property
    def newest_cut(self) -> datetime:
        return max(one.cut for one in self.days)

    @property
    def span(self) -> Span:
        return Span(self.newest_cut, self.days[0].day, self.days[-1].day)

    def stream_alone(self) -> "ComparedDays | None":
        """The published days of which the tail still holds everything, as if nothing had been published."""
        if self.limit is None:
            return None
        days = tuple(
            ComparedDay(one.day, self.limit)
            for one in self.days
            if one.deduplicated is not None and one.in_tail
        )
        return replace(self, days=days) if days else None


def days_to_compare(
    settings: Settings,
    version: Version,
    cut: datetime | None = None,
    first: date | None = None,
    last: date | None = None,
) -> ComparedDays:
    """A base cannot be read before its own cut, and a tail not beyond what its stream has read completely."""
    tables = ViewTables.of(settings, version)
    # The tail first: a base that is pinned later covers at least what this tail has lost.
    tail, base = pin_at(tables.tail), pin_at(tables.base)
    mark = tail.mark() if tail is not None else None
    complete = mark.complete if mark is not None and not mark.replaying else None
    limit = complete if cut is None or complete is None else min(cut, complete)
    throughs = base.throughs() if base is not None else {}
    published = published_cuts(tables)
    collected = _collected(tables, mark)
    begin = max((day for day in (first, version.from_day) if day is not None), default=None)
    found, skipped = [], {}
    for day in sorted(_days(Log(version.view.source, settings)) | set(throughs)):
        if not is_between(day, begin, last):
            continue
        through = throughs.get(day)
        cuts = [moment for moment in (limit, through) if moment is not None]
        if not cuts:
            skipped[day] = "it is not published, and no stream has read its log yet"
            continue
        by_batch = through if through is not None and published.get(day) == through else None
        found.append(ComparedDay(day, max(cuts), through, by_batch, day not in collected))
    if not found:
        name = version.view.name
        raise NotYet(
            f"view {name!r} has no day that can be compared: run `braid stream {name} --once`, or publish days with "
            "`braid batch run`."
        )
    pins = [None if table is None else table.version for table in (tail, base)]
    return ComparedDays(version, tables, pins[0], pins[1], tuple(found), mark, limit, skipped)


def _collected(tables: ViewTables, mark: TailCommit | None) -> set[date]:
    """The days whose rows the stream has taken out of its tail, because a base covered them."""
    if mark is None or mark.collected < 1:
        return set()
    base = pin_at(tables.base, mark.collected)
    return set() if base is None else set(base.throughs())


def _days(log: Log) -> set[date]:
    table = pin_at(log.table)
    return {day for day, _ in table.parts()} if table is not None else set()


@dataclass(frozen=True)
class Copies:
    """Copies of events by their place: those that were served, with the reason why, and those that a base left out."""

    counted: DataFrame
    left_out: DataFrame


def rows_of(spark: SparkSession, log: Log, known: ComparedDays) -> DataFrame:
    """The accepted rows of each day up to the day's cut."""
    where = " or ".join(
        f"(_epoch <= {timestamp(cut)} and {on_days(days)})" for cut, days in known.cuts.items()
    )
    return read_accepted(spark, log, [one.day for one in known.days]).where(where)


def copies(rows: DataFrame, source: Source, known: ComparedDays) -> Copies | None:
    """None when there are none, as it should be: nothing more has to be computed then."""
    if source.event_id is None:
        return None
    identity = F.col(quote(source.event_id))
    narrow = rows.where(identity.isNotNull()).select("day", identity.alias("_id"), *PLACE, "_arrival")
    twice = narrow.groupBy("day", "_id").count().where("count > 1").drop("count")
    in_order = Window.partitionBy("day", "_id").orderBy(*PLACE)
    numbered = narrow.join(twice, on=["day", "_id"], how="left_semi").select(
        "*", F.row_number().over(in_order).alias("_number"), F.lag("_arrival").over(in_order).alias("_before")
    )
    again = numbered.where("_number > 1").withColumn("_kind", _kind(source.horizon))
    if again.isEmpty():
        return None
    is_left_out = F.expr(_published(known.days))
    return Copies(
        again.where(~is_left_out).select("_partition", "_offset", "_kind"),
        again.where(is_left_out).select("_partition", "_offset"),
    )


def placed_events(view: View, rows: DataFrame, table_of: TableOf, *more: str) -> DataFrame:
    """The view's events with their places as a struct in `_epoch`, the one column that comes along untouched."""
    place = F.struct(*PLACE, "_arrival", *more)
    return view_events(view, rows.withColumn("_epoch", place), table_of).withColumnRenamed("_epoch", "_place")


def _kind(horizon: timedelta) -> Column:
    """Why a copy was accepted: it came by the inbox, so late that its id was forgotten, or ingest lost its memory."""
    pause = F.unix_micros("_arrival") - F.unix_micros("_before")
    beyond = pause > F.lit(micros(horizon))
    return F.when(F.col("_partition") == INBOX_PARTITION, REQUEUED).when(beyond, BEYOND).otherwise(WITHIN)


def _published(days: Iterable[ComparedDay]) -> str:
    """A condition on rows: a base has them, and its batch counted each event once."""
    parts = [
        f"(day = date'{one.day}' and _epoch <= {timestamp(one.deduplicated)})"
        for one in days
        if one.deduplicated is not None
    ]
    return " or ".join(parts) or "false"


def counted_copies(
    view: View, rows: DataFrame, copies: Copies, states: DataFrame, table_of: TableOf
) -> DataFrame:
    """A row per group that has any, with a column for each kind."""
    served = rows.join(copies.counted, on=["_partition", "_offset"], how="inner")
    events = in_groups(view, placed_events(view, served, table_of, "_kind"), states)
    kinds = [F.count_if(F.col("_place._kind") == kind).alias(kind) for kind in COPIES]
    return events.groupBy(*group_columns(view)).agg(*kinds)


def in_groups(view: View, events: DataFrame, states: DataFrame) -> DataFrame:
    """Events with the pane, or the session of these states, that each is in."""
    time = F.col(view.source.event_time)
    if not isinstance(view.window, Session):
        return events.withColumn("pane", pane_start(time, view.window.pane, view.source.timezone))
    names = {name: f"_of_{name}" for name in ("day", *view.keys)}
    sessions = states.select(
        *(F.col(name).alias(other) for name, other in names.items()), *bounds(view)
    ).distinct()
    same = [F.col(name).eqNullSafe(F.col(other)) for name, other in names.items()]
    joined = events.join(sessions, on=[*same, time.between(F.col("first"), F.col("last"))], how="inner")
    return joined.drop(*names.values())
