"""Where panes and windows begin and end in a source's time zone, on days of 23 to 25 hours, and when they are final.

Lengths of several whole hours are wall-clock time: a pane of a day is the local day, however long. Days are counted
from Monday 1969-12-29. Other lengths are elapsed time, aligned to the local clock: the repeated hour of an autumn day
is two hours. A pane of those that would reach over a change of the clock ends there, and the next one begins there.
Lengths that divide 15 minutes need no zone: the zones of today differ from UTC by multiples of that.
"""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from braid.define.view import View
from braid.define.windows import Fixed, Session

ZERO = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
QUARTER = timedelta(minutes=15)
HOUR = timedelta(hours=1)
MONDAY = datetime(1969, 12, 29)


def micros(length: timedelta) -> int:
    """A length of time in whole microseconds."""
    return length // MICROSECOND


def micros_of(instant: datetime) -> int:
    """Microseconds since 1970, as Spark, Arrow and DuckDB count time."""
    return micros(instant - ZERO)


def instant_of(microseconds: int) -> datetime:
    return ZERO + microseconds * MICROSECOND


def local_day(instant: datetime, zone: ZoneInfo) -> date:
    return instant.astimezone(zone).date()


def needs_no_zone(length: timedelta) -> bool:
    return not QUARTER % length


def is_wall_clock(length: timedelta) -> bool:
    return length > HOUR and not length % HOUR


def pane_start(instant: datetime, length: timedelta, zone: ZoneInfo) -> datetime:
    """The start of the pane that an instant is in; all instants are aware, and UTC when returned."""
    if needs_no_zone(length):
        return instant - (instant.replace(tzinfo=None) - MONDAY) % length
    wall = _wall(instant, zone)
    into = (wall - MONDAY) % length
    if is_wall_clock(length):
        return _instant(wall - into, zone)
    start = instant - into
    return start if _offset(start, zone) == _offset(instant, zone) else _last_change(instant, zone)


def windows_of(instant: datetime, window: Fixed, zone: ZoneInfo) -> list[tuple[datetime, datetime]]:
    """The [start, end) of every window that an instant, or the pane that starts there, belongs to."""
    shifts = [k * window.every for k in range(window.size // window.every)]
    if is_wall_clock(window.every):
        wall = _wall(instant, zone)
        wall -= (wall - MONDAY) % window.every
        return [
            (_instant(wall - shift, zone), _instant(wall - shift + window.size, zone)) for shift in shifts
        ]
    start = pane_start(instant, window.every, zone)
    if window.kind == "tumbling":
        return [(start, _next_start(start, window.size, zone))]
    return [(start - shift, start - shift + window.size) for shift in shifts]


def _next_start(start: datetime, length: timedelta, zone: ZoneInfo) -> datetime:
    end = start + length
    if needs_no_zone(length):
        return end
    # A pane that itself began at a change is shorter than its length.
    unchanged = _offset(end, zone) == _offset(start, zone)
    return pane_start(end, length, zone) if unchanged else _last_change(end, zone)


def _wall(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None)


def _instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first instant at which a wall clock shows this; for a time that was skipped, the change that skipped it."""
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    return instant if _wall(instant, zone) == wall else _last_change(instant, zone)


def _offset(instant: datetime, zone: ZoneInfo) -> timedelta | None:
    return instant.astimezone(zone).utcoffset()


def _last_change(instant: datetime, zone: ZoneInfo) -> datetime:
    """The last change of the clock, which is known to be near; clocks change on the minute."""
    minute = instant.replace(second=0, microsecond=0)
    while _offset(minute - MINUTE, zone) == _offset(instant, zone):
        minute -= MINUTE
    return minute


def watermark(view: View, seen: datetime | None) -> datetime | None:
    """Windows that end at or before it are final; `seen` is the largest event time so far."""
    return None if seen is None else seen - view.patience


def late_before(view: View, mark: datetime | None) -> datetime | None:
    """States whose pane starts (of sessions: whose last event is) before this change a window that is final.

    None when nothing can be late: no watermark yet, or a window that never ends.
    """
    if mark is None:
        return None
    if isinstance(view.window, Session):
        return mark - view.window.gap + MICROSECOND
    if isinstance(view.window, Fixed):
        # Windows end where the next one starts: whatever began before the present one has had an end.
        return pane_start(mark.astimezone(UTC), view.window.every, ZoneInfo(view.source.timezone))
    return None
