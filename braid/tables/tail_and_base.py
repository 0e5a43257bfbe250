"""What the tables of a version say of each other and of their log: whether they belong together, and the replay's cut.

Rows leave a tail for a version of its base, and are in no other table.
"""

from datetime import datetime

from braid import writing
from braid.errors import BraidError
from braid.tables import delta_rs
from braid.tables.commits import Position, TailCommit, newest_tail_commit
from braid.tables.delta_log import newest_version, transaction
from braid.tables.view_tables import LOG, REPLAY_CUT, ViewTables


def belongs(mark: TailCommit | None, base: str | None, newest: int | None) -> bool:
    """Whether a base, by its table's id and its newest version, has what a tail left to it. None: there is no base."""
    if mark is None:
        return True
    is_same = mark.needed < 0 or writing.is_same_table(mark.base or None, base)
    return is_same and writing.has_what_left(mark.needed, newest)


def is_base_lost(tables: ViewTables) -> bool:
    """Asked of the tail first: a base that is looked at later has at least what this tail has left to it."""
    mark = newest_tail_commit(tables.tail)
    return not belongs(mark, delta_rs.table_id(tables.base), newest_version(tables.base))


def refuse_lost_base(tables: ViewTables) -> None:
    if is_base_lost(tables):
        raise base_lost(tables)


def base_lost(tables: ViewTables) -> BraidError:
    return BraidError(
        f"the base of view {tables.view!r} at {tables.base} is gone, older than its tail, or another one: it lacks "
        "what the tail has left to it, and every number would be too low. Restore both as they were at one moment, or "
        f"build a new version from the log: `braid kappa replay {tables.view}`."
    )


def replay_cut(tables: ViewTables) -> datetime | None:
    """The cut under which a stream has stored its history, fixed when its tail was created; None without a replay."""
    cut = delta_rs.properties(tables.tail).get(REPLAY_CUT)
    return datetime.fromisoformat(cut) if cut else None


def refuse_second_tail(tables: ViewTables, replay_cut: datetime | None) -> None:
    """A tail without a batch, beside a base that another tail was folded into: history would be counted twice."""
    covered = delta_rs.throughs(tables.base)
    if not writing.may_begin(covered.values(), replay_cut):
        raise BraidError(
            f"view {tables.view!r} cannot begin anew: its tail {tables.tail} is gone or empty, but its base holds "
            f"{len(covered)} days, and the log's history would be counted twice. Restore the tail with its checkpoint, "
            f"or build a new version from the log: `braid kappa replay {tables.view}`."
        )


def refuse_other_log(log: str, tables: ViewTables, last: TailCommit | None) -> None:
    """A log that was restored, or ingested anew, has other commits under the numbers that a tail has read.

    A tail that has read nothing yet says for which log it was made.
    """
    position, read = (last.position, last.read) if last is not None else (Position(0), "")
    known = (last.log if last is not None else "") or delta_rs.properties(tables.tail).get(LOG)
    newest, present, view = newest_version(log) or 0, delta_rs.table_id(log), tables.view
    is_known = position.is_between_commits and position.version > 0
    before = transaction(log, position.version - 1) if is_known else None
    mark = before.mark if before is not None else None
    differs = writing.differs_from_read(known, present, position.version, newest, read, mark)
    if differs is None:
        return
    why = {
        "table": f"it is the table {present}, and not {known}",
        "end": f"it ends at commit {newest}, and commit {position.version - 1} was read",
        "commit": f"commit {position.version - 1} is another than the one that was read",
    }[differs]
    raise BraidError(
        f"the log {log} is not the one of view {view!r}: {why}. Restore the one that belongs to it, or "
        f"build the view anew from this one: `braid kappa replay {view}`."
    )
