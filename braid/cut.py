"""The rules of the cut as functions over small values: what is closed, which side a row is on, what is due to go."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Literal


def last_closed(newest: datetime, length: timedelta) -> datetime:
    """The last epoch that can gain no more rows: one before the newest that was committed."""
    return newest - length


def is_closed(cut: datetime, closed: datetime | None) -> bool:
    """Only a closed epoch may be a cut: rows that came later would be on neither side of it."""
    return closed is not None and cut <= closed


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


def is_beyond(epoch: datetime, through: datetime | None) -> bool:
    """Whether a row of the tail counts: what is not beyond its day's cut is in the base."""
    return through is None or epoch > through


def stored_under(epoch: datetime, replay_cut: datetime | None) -> datetime:
    """The epoch of a row in a tail: all of a replay's history is under one, in whatever order it is read."""
    return epoch if replay_cut is None else max(epoch, replay_cut)


def collectable(through: Mapping[date, datetime], complete: datetime) -> datetime | None:
    """Up to which epoch rows that the base covers may be taken out of a tail.

    Not beyond what the tail is complete to: an epoch that may still gain rows is not rewritten. None: nothing may.
    """
    return min(max(through.values()), complete) if through else None


def covered_epochs(rows: Iterable[tuple[date, datetime]], through: Mapping[date, datetime]) -> set[datetime]:
    """The epochs of a tail in which some rows are not beyond their day's cut."""
    return {epoch for day, epoch in rows if not is_beyond(epoch, through.get(day))}


def is_to_collect(
    epochs: Iterable[datetime], covers: datetime | None, collected: datetime | None, complete: datetime
) -> bool:
    """Whether a tail may have become rid of more: it has epochs that its base covers and that were still open."""
    if covers is None:
        return False
    return any(is_beyond(epoch, collected) and epoch <= min(covers, complete) for epoch in epochs)


def may_replace(epochs: Iterable[datetime], touched: Iterable[datetime]) -> bool:
    """Whether epochs are still as they were read, given those that later commits have touched."""
    return not set(epochs) & set(touched)


def complete_after(epoch: datetime | None, length: timedelta, starting: bool) -> datetime | None:
    """The last epoch that can gain no more rows in a tail, given the newest one of the log that it has consumed.

    None while history is read: an optimised log gives its epochs in any order.
    """
    return None if epoch is None or starting else epoch - length


def cut_due(
    mode: str,
    replay_cut: datetime | None,
    covered: datetime | None,
    first: datetime | None,
    complete: datetime,
    every: timedelta,
) -> datetime | None:
    """The cut up to which a tail is to be folded into its base now.

    A replay's history is folded once it has been read; the tail of a kappa view every now and then.
    """
    if replay_cut is not None and (covered is None or covered < replay_cut):
        return replay_cut if replay_cut <= complete else None
    if mode != "kappa":
        return None
    since = covered if covered is not None else first
    return complete if since is not None and complete - since >= every else None


def fold_due(
    cut: datetime | None, base_changed: bool, collects: bool, epochs: list[datetime]
) -> Literal["advance", "collect", "rewrite"] | None:
    """What a stream does next to keep its tail short; one thing at a time, as it stalls the stream.

    The base first: what is folded into it leaves the tail. What others published into it is collected next.
    """
    if cut is not None:
        return "advance"
    if base_changed or collects:
        return "collect"
    return "rewrite" if epochs else None


def knows_base(before: int, known: int, collected: datetime | None, covers: datetime | None) -> bool:
    """Whether a stream that has just written its base knows all that is in it, given the version that was there before.

    What others have published, and is not collected yet, would be forgotten otherwise.
    """
    return before == 0 or (before == known and collected == covers)


def to_fold(files: Mapping[datetime, int], complete: datetime, most: int) -> list[datetime]:
    """The closed epochs that have more than one file, oldest first."""
    return sorted(epoch for epoch, number in files.items() if number > 1 and epoch <= complete)[:most]


def brings_rows(is_ours: bool, is_fold: bool, changes_data: bool) -> bool:
    """Whether a commit to a tail has rows that a reader in memory has not: a fold or a compaction only moves them."""
    return is_ours and not is_fold and changes_data
