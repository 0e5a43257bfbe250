"""The rules of braid.calendar as native Spark columns."""

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from braid.calendar import HOUR, MONDAY, QUARTER
from braid.windows import Fixed

MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1)


def micros(length: timedelta) -> int:
    return length // MICROSECOND


def pane_start(instant: Column, length: timedelta, zone: str) -> Column:
    """The start of the pane that an instant is in."""
    if not QUARTER % length:
        return _earlier(instant, F.pmod(F.unix_micros(instant), F.lit(micros(length))))
    wall = F.from_utc_timestamp(instant, zone)
    into = _into(wall, length)
    by_the_wall = F.to_utc_timestamp(_earlier(wall, into), zone)
    if length > HOUR:
        return by_the_wall
    start = _earlier(instant, into)
    the_clock_did_not_change = F.from_utc_timestamp(start, zone) == _earlier(wall, into)
    return F.when(the_clock_did_not_change, start).otherwise(by_the_wall)


def in_windows(states: DataFrame, window: Fixed, zone: str) -> DataFrame:
    """Each state once for every window that its pane belongs to, with window_start and window_end."""
    steps = F.explode(F.sequence(F.lit(0), F.lit(window.size // window.every - 1)))
    wall_clock = window.every > HOUR
    pane = F.col("pane")
    wall = F.from_utc_timestamp(pane, zone)
    newest = _earlier(wall, _into(wall, window.every)) if wall_clock else pane_start(pane, window.every, zone)
    # Column by column: nested in one expression, each time would be computed again wherever it is used.
    stepped = states.withColumn("_newest", newest).withColumn("_step", steps)
    begun = stepped.withColumn(
        "window_start", _earlier(F.col("_newest"), F.col("_step") * micros(window.every))
    )
    start, later = F.col("window_start"), F.lit(-micros(window.size))
    if wall_clock:
        end = F.to_utc_timestamp(_earlier(start, later), zone)
        bounded = begun.withColumns({"window_end": end, "window_start": F.to_utc_timestamp(start, zone)})
    else:
        bounded = begun.withColumn("window_end", _end(start, later, window, zone))
    return bounded.drop("_newest", "_step")


def _end(start: Column, later: Column, window: Fixed, zone: str) -> Column:
    """Elapsed time later, moved to the pane that begins there when the clock changed on the way."""
    end = _earlier(start, later)
    if not QUARTER % window.every:
        return end
    boundary = pane_start(end, window.every, zone)
    by_the_wall = F.to_utc_timestamp(_earlier(F.from_utc_timestamp(start, zone), later), zone)
    return F.when(boundary > start, boundary).otherwise(by_the_wall)


def _into(wall: Column, length: timedelta) -> Column:
    """How far into its pane a wall clock is, in microseconds."""
    return F.pmod(F.unix_micros(wall) - F.lit(micros(MONDAY - _EPOCH)), F.lit(micros(length)))


def _earlier(instant: Column, by: Column) -> Column:
    return F.timestamp_micros(F.unix_micros(instant) - by)
