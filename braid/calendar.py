"""Where panes and windows begin and end in a source's time zone, on days of 23, 24 and 25 hours.

Up to an hour, a pane is elapsed time aligned to the local clock: the repeated hour of an autumn day is two hours.
Beyond an hour it is wall-clock time: a pane of a day is the local day. Lengths of several days are counted from
Monday 1969-12-29. A pane that would reach across a change of the clock that is no multiple of it is cut at, or
stretched over, the change, by the wall clock. Lengths that divide 15 minutes ignore the zone: today's zones all
differ from UTC by multiples of that.
"""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from braid.windows import Fixed

QUARTER = timedelta(minutes=15)
HOUR = timedelta(hours=1)
MONDAY = datetime(1969, 12, 29)


def local_day(instant: datetime, zone: ZoneInfo) -> date:
    return instant.astimezone(zone).date()


def pane_start(instant: datetime, length: timedelta, zone: ZoneInfo) -> datetime:
    """The start of the pane that an instant is in; all instants are aware, and UTC when returned."""
    if not QUARTER % length:
        return instant - (instant.replace(tzinfo=None) - MONDAY) % length
    into = (_wall(instant, zone) - MONDAY) % length
    if length <= HOUR:
        start = instant - into
        if _wall(start, zone) == _wall(instant, zone) - into:
            return start
    return _instant(_wall(instant, zone) - into, zone)


def windows_of(instant: datetime, window: Fixed, zone: ZoneInfo) -> list[tuple[datetime, datetime]]:
    """The [start, end) of every window that an instant, or the pane that starts there, belongs to."""
    shifts = [k * window.every for k in range(window.size // window.every)]
    start = pane_start(instant, window.every, zone)
    if window.every <= HOUR:
        return [(start - shift, _end(start - shift, window, zone)) for shift in shifts]
    wall = _wall(instant, zone)
    wall -= (wall - MONDAY) % window.every
    return [(_instant(wall - shift, zone), _instant(wall - shift + window.size, zone)) for shift in shifts]


def _end(start: datetime, window: Fixed, zone: ZoneInfo) -> datetime:
    """Elapsed time later, moved to the pane that begins there when the clock changed on the way."""
    end = start + window.size
    boundary = pane_start(end, window.every, zone)
    return boundary if boundary > start else _instant(_wall(start, zone) + window.size, zone)


def _wall(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None)


def _instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first instant that a wall clock shows this; for a time that was skipped, as much later."""
    return wall.replace(tzinfo=zone).astimezone(UTC)
