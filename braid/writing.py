"""What a writer decides before it commits: is a batch there already, who may go on, which epoch does a commit have."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

Decision = Literal["write", "skip", "stranger", "older"]


@dataclass(frozen=True)
class Batch:
    """A micro-batch: the checkpoint that numbers it, its number, and where it ends."""

    query: str
    number: int
    end: Any


def decide(last: Batch | None, mine: Batch, replaces: str | None = None) -> Decision:
    """What to do with a batch, given the newest one that is in the table.

    A new checkpoint numbers its batches from 0: it may go on only with a table whose last writer it replaces.
    """
    if last is None:
        return "write"
    if last.query != mine.query:
        return "write" if last.query == replaces else "stranger"
    if mine.number > last.number:
        return "write"
    return "skip" if mine == last else "older"


def is_older_table(last: int, mine: int, ends: Mapping[int, Any]) -> bool:
    """Whether a table lacks batches that its checkpoint has finished, by where each batch ended, as far as is known.

    Of those between the last one that is there and this one, each must have ended where the one before it had: Spark
    plans some without anything to read. What others had read would never be read again.
    """
    missing = object()
    return any(ends.get(number, missing) != ends.get(number - 1) for number in range(last + 1, mine))


def next_epoch(
    last: datetime | None,
    present: datetime,
    waited: timedelta = timedelta(0),
    length: timedelta = timedelta(minutes=1),
) -> datetime:
    """The epoch of a commit made now: never before the last one, whatever the clock says.

    A clock that has jumped forward and back is behind the last epoch, maybe for years: then the time that was waited
    since that epoch began moves it on.
    """
    if last is None or present >= last:
        return present
    return last + waited // length * length if waited else last


def beat_due(
    last: datetime, present: datetime, is_beat: bool, waited: timedelta, length: timedelta
) -> datetime | None:
    """The epoch to which an idle source is moved on, so that its last one closes; None while there is no need.

    Behind a clock that has jumped forward and back one such move is enough: nothing comes that would have to close.
    """
    epoch = next_epoch(last, present)
    if epoch > last:
        return epoch
    return last + length if not is_beat and present < last and waited >= length else None


def closing_epoch(last: datetime, is_beat: bool, length: timedelta) -> datetime | None:
    """The epoch that a writer which stops says last, so that all that it wrote can be cut; None if it is closed."""
    return None if is_beat else last + length


def is_lost(has_word: bool, has_rows: bool, finished: bool) -> bool:
    """Whether a table cannot be gone on with: its rows, or a checkpoint that has finished batches, have no word of it.

    To begin anew would read all of it a second time.
    """
    return not has_word and (has_rows or finished)


def may_go_on(query: str | None, last: str, replaces: str | None, finished: bool) -> bool:
    """Whether a checkpoint may go on with a table: it wrote the last batch, or was begun to replace who did.

    One that has finished a batch since then wrote it to a table that is not this one, or was later.
    """
    return last == query or (last == replaces and not finished)


def may_take_over(planned: int | None, batch: int) -> bool:
    """Whether a new checkpoint may go on from the places that were noted after a batch: only while it is the last.

    What a writer that was still at work has committed since would be read again. A note of old names no batch.
    """
    return planned is None or planned == batch


def may_begin(through: Iterable[datetime], replay_cut: datetime | None) -> bool:
    """Whether a stream may begin to fill a tail, given what its base covers: not beside one that another tail made.

    History is stored under the replay's cut. A day whose base ends before that cut would be counted twice.
    """
    return all(replay_cut is not None and replay_cut <= covered for covered in through)


def has_what_left(needs: int, newest: int | None) -> bool:
    """Whether a base has what left its tail: the version of it that covered those rows, or a later one.

    Nothing has left the tail while `needs` is below 0; None stands for a base that is not there.
    """
    return needs < 0 or (newest is not None and newest >= needs)


def newest_word(found: Any | None, kept: Any | None, turn: int) -> Any | None:
    """What a writer said last: its newest commit, or what the table keeps of it when that one is cleaned up."""
    if found is not None:
        return found
    return kept if kept is not None and is_current(kept.turn, turn) else None


def is_current(said: int | None, turn: int) -> bool:
    """Whether a word that was kept is the last one, by the turn in which it was said and the turns that were taken.

    Where two engines may run, one keeps its word and the other goes on: what that one commits is newer, and is cleaned
    up one day. A word of old says no turn: a lock kept the others out.
    """
    return said is None or said == turn


def is_same_table(known: str | None, present: str | None) -> bool:
    """Whether a table is still the one that was read before; one that does not say who it is, is."""
    return known is None or present is None or known == present


def differs_from_read(
    known: str | None, present: str | None, position: int, newest: int, read: str, before: str | None
) -> Literal["table", "end", "commit"] | None:
    """How a log differs from the one that a tail has read up to a position: by its id, its end or its last commit.

    `before` is the mark of the commit before that position; None where it is cleaned up, or the tail ends within it.
    """
    if not is_same_table(known, present):
        return "table"
    if position > newest + 1:
        return "end"
    return "commit" if before is not None and read and before != read else None


def next_turn(counted: int) -> int:
    """The number of a commit that may only follow on what was read: of two with one number the store makes one."""
    return counted + 1


def was_made(token: str, newest: str | None) -> bool:
    """Whether a commit that the store did not refuse is in the table: it says nothing of one that it has skipped."""
    return token == newest


def may_speak(in_doubt: bool) -> bool:
    """A commit that failed may have been made all the same: nothing more is said until a new start has looked.

    A commit after it would repeat the batch before it as the newest, and the next start would append it twice.
    """
    return not in_doubt
