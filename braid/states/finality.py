"""When a window is final: the watermark as information, which says what to expect of a number and drops nothing."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from braid.define.view import View
from braid.define.windows import Fixed, Session
from braid.states.calendar import pane_start


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
        return mark - view.window.gap + timedelta(microseconds=1)
    if isinstance(view.window, Fixed):
        # Windows end where the next one starts: whatever began before the present one has had an end.
        return pane_start(mark.astimezone(UTC), view.window.every, ZoneInfo(view.source.timezone))
    return None
