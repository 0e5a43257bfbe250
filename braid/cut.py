"""The rules of the cut, over plain moments: which epoch is closed, and which cut logs, days or versions share."""

from collections.abc import Iterable
from datetime import datetime, timedelta


def last_closed(newest: datetime, length: timedelta) -> datetime:
    """The last epoch that can gain no more rows: one before the newest that was committed."""
    return newest - length


def common(cuts: Iterable[datetime]) -> datetime | None:
    """The cut that all of several things have reached; None when there are none."""
    return min(cuts, default=None)


def effective(cut: datetime, *floors: datetime | None) -> datetime:
    """A day's cut never goes back: not behind what it covers, nor behind the cut under which a replay stored it."""
    return max(moment for moment in (cut, *floors) if moment is not None)


def comparable(complete: Iterable[datetime], covered: Iterable[datetime]) -> datetime | None:
    """The last epoch that versions hold completely; None when a base covers more, which cannot be taken out of it."""
    cut = common(complete)
    return None if cut is None or any(through > cut for through in covered) else cut
