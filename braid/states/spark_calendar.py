"""Days, moments and panes in Spark: the rules of the calendar as columns, conditions on days, and small frames."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from braid.define.windows import DAY, Fixed
from braid.states.calendar import MINUTE, MONDAY, ZERO, is_wall_clock, micros, needs_no_zone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_MONDAY = micros(MONDAY - ZERO.replace(tzinfo=None))

ONE_DAY = timedelta(days=1)


def pane_start(instant: Column, length: timedelta, zone: str) -> Column:
    """The start of the pane that an instant is in."""
    if needs_no_zone(length):
        return _earlier(instant, F.pmod(F.unix_micros(instant), F.lit(micros(length))))
    wall = F.from_utc_timestamp(instant, zone)
    into = _into(wall, length)
    if is_wall_clock(length):
        return _instant(_earlier(wall, into), zone)
    start = _earlier(instant, into)
    unchanged = _offset(start, zone) == _offset(instant, zone)
    return F.when(unchanged, start).otherwise(_last_change(instant, zone))


def in_windows(states: DataFrame, window: Fixed, zone: str) -> DataFrame:
    """Each state once for every window that its pane belongs to, with window_start and window_end."""
    pane, wall = F.col("pane"), F.from_utc_timestamp("pane", zone)
    wall_clock = is_wall_clock(window.every)
    newest = _earlier(wall, _into(wall, window.every)) if wall_clock else pane_start(pane, window.every, zone)
    steps = F.explode(F.sequence(F.lit(0), F.lit(window.size // window.every - 1)))
    shifted = _earlier(F.col("_newest"), F.col("_step") * micros(window.every))
    # Column by column: nested in one expression, each time would be computed again wherever it is used.
    begun = (
        states.withColumn("_newest", newest).withColumn("_step", steps).withColumn("window_start", shifted)
    )
    start = F.col("window_start")
    end = _earlier(start, F.lit(-micros(window.size)))
    if wall_clock:
        begun = begun.withColumns({"window_end": _instant(end, zone), "window_start": _instant(start, zone)})
    elif window.kind == "tumbling":
        begun = begun.withColumn("window_end", _next_start(start, end, window.size, zone))
    else:
        begun = begun.withColumn("window_end", end)
    return begun.drop("_newest", "_step")


def _next_start(start: Column, end: Column, length: timedelta, zone: str) -> Column:
    if needs_no_zone(length):
        return end
    unchanged = _offset(end, zone) == _offset(start, zone)
    return F.when(unchanged, pane_start(end, length, zone)).otherwise(_last_change(end, zone))


def _into(wall: Column, length: timedelta) -> Column:
    """How far into its pane a wall clock is, in microseconds."""
    return F.pmod(F.unix_micros(wall) - F.lit(_MONDAY), F.lit(micros(length)))


def _earlier(instant: Column, by: Column) -> Column:
    return F.timestamp_micros(F.unix_micros(instant) - by)


def _instant(wall: Column, zone: str) -> Column:
    instant = F.to_utc_timestamp(wall, zone)
    exists = F.from_utc_timestamp(instant, zone) == wall
    return F.when(exists, instant).otherwise(_last_change(instant, zone))


def _offset(instant: Column, zone: str) -> Column:
    return F.unix_micros(F.from_utc_timestamp(instant, zone)) - F.unix_micros(instant)


def _last_change(instant: Column, zone: str) -> Column:
    """The first minute of the day before that already has this offset: Spark has no function for it."""
    minute = micros(MINUTE)
    last = F.unix_micros(instant) - F.pmod(F.unix_micros(instant), F.lit(minute))
    minutes = F.sequence(last - micros(DAY), last, F.lit(minute))
    alike = F.filter(minutes, lambda m: _offset(F.timestamp_micros(m), zone) == _offset(instant, zone))
    return F.timestamp_micros(F.array_min(alike))


def no_rows(spark: "SparkSession", schema: "StructType") -> "DataFrame":
    """A frame without rows, which Spark knows to be empty before it runs anything."""
    from pyspark.sql import functions as F

    nothing = [F.lit(None).cast(column.dataType).alias(column.name) for column in schema]
    return spark.range(1).where(F.lit(False)).select(*nothing)


def days_and_moments(spark: "SparkSession", moments: Mapping[date, datetime], name: str) -> "DataFrame":
    """A row of (day, moment) for each; there must be one."""
    rows = (f"(date'{day}', {timestamp(moment)})" for day, moment in moments.items())
    return spark.sql(f"select * from values {', '.join(rows)} as moments(day, {name})")


def timestamp(moment: datetime) -> str:
    """A moment as an SQL literal, for a session in UTC."""
    return f"timestamp'{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"


def on_days(days: Iterable[date]) -> str:
    """A condition that prunes partitions. Days in a row are one range, however many there are."""
    ranges: list[tuple[date, date]] = []
    for day in sorted(days):
        if ranges and day - ranges[-1][1] == ONE_DAY:
            ranges[-1] = ranges[-1][0], day
        else:
            ranges.append((day, day))
    return f"({' or '.join(map(_between, ranges))})"


def _between(days: tuple[date, date]) -> str:
    first, last = days
    # Not `between`: as a condition of what is replaced, Delta does not know the word.
    return f"day = date'{first}'" if first == last else f"(day >= date'{first}' and day <= date'{last}')"
