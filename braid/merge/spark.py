"""A view's states as they are served, as Spark DataFrames: each event from exactly one side of its day's cut."""

from collections.abc import Mapping
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.define.view import View
from braid.errors import BraidError, NotYet
from braid.merge import arrow
from braid.runtime.settings import Settings, current_settings
from braid.runtime.spark import from_arrow
from braid.states import state_columns
from braid.states.arrow import merge as merge_arrow
from braid.states.spark import merge, present
from braid.states.spark_calendar import days_and_moments, on_days
from braid.tables.conditional import see
from braid.tables.delta_rs import bytes_of
from braid.tables.spark_tables import pinned
from braid.tables.tail_and_base import refuse_lost_base
from braid.tables.view_tables import LATE, ViewTables, base_columns, bounds

# Tables of up to so many bytes are read by the driver: days are many small files, and take Spark seconds to open.
SMALL = 32 << 20


def beyond(tail: DataFrame, through: dict[date, datetime]) -> DataFrame:
    """The tail's rows that the base does not cover."""
    if not through:
        return tail
    covered = days_and_moments(tail.sparkSession, through, "_through")
    joined = tail.join(F.broadcast(covered), on="day", how="left")
    # As `braid.cut.is_beyond` says of one row.
    open_rows = joined.where(F.col("_through").isNull() | (F.col("epoch") > F.col("_through")))
    return open_rows.select(*tail.columns)


def base_states(view: View, base: DataFrame) -> DataFrame:
    """The base's states, without the rows that only say that a day had no events."""
    return base.where(f"{bounds(view)[0]} is not null").select(*base_columns(view))


def served_states(
    spark: SparkSession,
    view: View,
    tables: ViewTables,
    cut: datetime | Mapping[date, datetime] | None = None,
) -> DataFrame:
    """One state per (day, pane, keys), up to a cut where one is given, or of some days up to the cut of each.

    The tail is pinned before the base. The other way round, a publish between the two would take rows out of the tail
    that the older base does not have.
    """
    if cut is not None and (states := served_here(view, tables, cut)) is not None:
        return from_arrow(spark, states)
    refuse_lost_base(tables)
    tail_seen, base_seen = see(tables.tail), see(tables.base)
    through = base_seen.pin().throughs()
    if isinstance(cut, Mapping):
        through = {day: covered for day, covered in through.items() if day in cut}
    tail = pinned(spark, tables.tail, tail_seen.version)
    base = pinned(spark, tables.base, base_seen.version)
    if isinstance(cut, Mapping):
        cuts = F.broadcast(days_and_moments(spark, cut, "_cut"))
        tail = tail.join(cuts, on="day", how="inner").where("epoch <= _cut").select(*tail.columns)
        base = base.where(on_days(cut))
    elif cut is not None:
        refuse_beyond(through, cut, tables)
        tail = tail.where(F.col("epoch") <= F.lit(cut))
    open_rows = beyond(tail, through)
    columns = ["day", *bounds(view), *view.keys, *state_columns(view), LATE]
    return merge(view, base_states(view, base).select(*columns).unionByName(open_rows.select(*columns)))


def refuse_beyond(through: Mapping[date, datetime], cut: datetime, tables: ViewTables) -> None:
    """Events beyond the cut that are in a base already cannot be taken out of it."""
    if (newest := max(through.values(), default=cut)) > cut:
        raise NotYet(
            f"{tables.base} covers {newest}, and cannot be read as it was at {cut}: ask for a later cut."
        )


def served_here(view: View, tables: ViewTables, cut: datetime | Mapping[date, datetime]) -> pa.Table | None:
    """The same where it is small, up to a cut or of some days up to the cut of each; None where Spark is to read it.

    It is read and merged as the server does it: Spark opens a hundred files while Arrow opens a thousand.
    """
    refuse_lost_base(tables)
    tail_seen, base_seen = see(tables.tail), see(tables.base)
    days = cut if isinstance(cut, Mapping) else None
    # Python merges sketches and histograms one by one.
    is_quick = all(measure.merges_in_sql for measure in state_columns(view).values())
    if bytes_of(tail_seen.table) + bytes_of(base_seen.table, days) > (SMALL if is_quick else SMALL // 4):
        return None
    tail, base = tail_seen.pin(), base_seen.pin()
    columns = ["day", *bounds(view), *view.keys, *state_columns(view)]
    if isinstance(cut, Mapping):
        of_days = pc.field("day").isin(pa.array(cut.keys(), pa.date32()))
        open_rows = arrow.upto(tail.rows(["epoch", *columns], of_days), cut)
    else:
        refuse_beyond(base.throughs(), cut, tables)
        of_days = pc.scalar(True)
        open_rows = tail.rows(["epoch", *columns], pc.field("epoch") <= cut)
    open_rows = arrow.beyond(open_rows, base.throughs())
    states = base.rows(columns, of_days & pc.field(bounds(view)[0]).is_valid())
    if len(open_rows):
        together = [states, open_rows.drop_columns("epoch")]
        states = merge_arrow(view, pa.concat_tables(together, promote_options="permissive"))
    return states.select(columns)


def merged(
    spark: SparkSession,
    view: View | str,
    grain: str | None = None,
    settings: Settings | None = None,
) -> DataFrame:
    """A view as it is served, for those who work in Spark: keys, window_start and window_end, and its numbers.

    `braid.merged(spark, "page_traffic", grain="1 hour")`. It reads the version that is active now, each event from one
    side of its day's cut; the tables it was made from stay as they were, whoever writes meanwhile.
    """
    from braid.deploy.store import load

    here, name = settings or current_settings(), view if isinstance(view, str) else view.name
    version = load(here, name).active
    if version is None:
        raise BraidError(
            f"view {name!r} is not deployed, so it has no numbers yet: run `braid stream {name}`."
        )
    tables = ViewTables.of(here, version)
    return present(version.view, served_states(spark, version.view, tables), grain)
