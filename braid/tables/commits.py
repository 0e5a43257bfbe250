"""What a writer says in its commits, and how it finds again what it said: exactly once without a lookup per batch.

A writer puts its batch number into the metadata of the commit that carries the batch's rows, so that both are there
or neither is. When a query starts, its writer looks its last batch up once, and skips what is already in the table.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

from braid import writing
from braid.runtime import documents
from braid.tables.delta_log import infos_back, newest_version

Described = TypeVar("Described")
Positions = dict[str, int]  # partition -> offset
# Hidden, as Delta sees it: VACUUM leaves it alone.
KEPT = "_braid.json"
# The id under which all that a log's or a tail's writer commits is counted, where two of them may run at once.
WRITERS = "braid-writer"


@dataclass(frozen=True)
class Commit:
    """The metadata of one commit of ours. Positions and counts are cumulative: the newest tells the whole story.

    A `beat` carries no rows: it repeats the last batch under a new epoch, with the counts that the engine gave since.
    A `token` tells this writer's commit from that of another one that took the same turn; only what is kept has `turn`.
    """

    query: str
    batch: int
    epoch: datetime
    clock: datetime
    beat: bool = False
    start: Positions = field(default_factory=dict)
    end: Positions = field(default_factory=dict)
    duplicates: int = 0
    uncounted: int = 0
    unknown_fields: tuple[str, ...] = ()
    token: str = ""
    turn: int | None = None

    def to_json(self) -> str:
        times = {"epoch": self.epoch.isoformat(), "clock": self.clock.isoformat()}
        return json.dumps({"braid": 1} | asdict(self) | times)

    @classmethod
    def from_json(cls, text: str | None) -> "Commit | None":
        values = _ours(text)
        if values is None or "kind" in values:
            return None
        times = {name: datetime.fromisoformat(values[name]) for name in ("epoch", "clock")}
        return cls(**(values | times | {"unknown_fields": tuple(values["unknown_fields"])}))


@dataclass(frozen=True)
class Position:
    """Where a stream stands in a log: the commit to read next, and whether it still reads what was there at first."""

    version: int
    index: int = -1
    starting: bool = False

    @property
    def is_between_commits(self) -> bool:
        return self.index < 0 and not self.starting


@dataclass(frozen=True)
class TailCommit:
    """The metadata of one commit to a tail; the newest tells the whole story.

    `states` is the fingerprint of the states, `epoch` the newest one of the log that was consumed, `complete` the last
    one that can gain no more rows here, `seen` the largest event time, `collected` the version of the base whose
    covered rows were taken out. A `fold` rewrites rows and changes no number. `log` is the id of the log's table, and
    `read` the mark of its last commit that was read: a log that another one was put in the place of has others.
    `base` is the id of the base's table, and `needs` its newest version for which rows have left the tail.
    """

    query: str
    batch: int
    position: Position
    states: str = ""
    epoch: datetime | None = None
    complete: datetime | None = None
    seen: datetime | None = None
    replay_cut: datetime | None = None
    replaying: bool = False
    fold: bool = False
    collected: int = -1
    lookups: dict[str, str] = field(default_factory=dict)
    log: str = ""
    read: str = ""
    base: str = ""
    needs: int | None = None
    token: str = ""
    turn: int | None = None

    def folded(self, base: str, needs: int, collected: int | None) -> "TailCommit":
        """What is said with a fold: rows may have left the tail for a base, which has them from a version on."""
        return replace(
            self, fold=True, collected=self.collected if collected is None else collected,
            base=base if needs > self.needed else self.base, needs=max(self.needed, needs),
        )  # fmt: skip

    @property
    def needed(self) -> int:
        """The version that the base must have; of a commit of old, which does not say it, the one collected last."""
        return self.collected if self.needs is None else self.needs

    def to_json(self) -> str:
        return json.dumps({"braid": 1, "kind": "tail"} | asdict(self), default=datetime.isoformat)

    @classmethod
    def from_json(cls, text: str | None) -> "TailCommit | None":
        values = _ours(text)
        if values is None or values.pop("kind", None) != "tail":
            return None
        for name in ("epoch", "complete", "seen", "replay_cut"):
            values[name] = values[name] and datetime.fromisoformat(values[name])
        return cls(**values | {"position": Position(**values["position"])})


@dataclass(frozen=True)
class BaseCommit:
    """The metadata of a commit to a base: the cut up to which its days were advanced, by what, and by which attempt.

    `days` has each day's own cut where a commit says it, as the batch layer's do; `through` is the latest of them.
    """

    through: datetime
    by: str
    token: str = ""
    days: Mapping[date, datetime] = field(default_factory=dict)

    def to_json(self) -> str:
        days = {day.isoformat(): through for day, through in sorted(self.days.items())}
        told = {"through": self.through, "by": self.by, "token": self.token} | (
            {"days": days} if days else {}
        )
        return json.dumps({"braid": 1, "kind": "base"} | told, default=datetime.isoformat)

    @classmethod
    def from_json(cls, text: str | None) -> "BaseCommit | None":
        values = _ours(text)
        if values is None or values.pop("kind", None) != "base":
            return None
        days = {
            date.fromisoformat(day): datetime.fromisoformat(through)
            for day, through in values.get("days", {}).items()
        }
        return cls(datetime.fromisoformat(values["through"]), values["by"], values.get("token", ""), days)


Word = TypeVar("Word", Commit, TailCommit)


def _ours(text: str | None) -> dict[str, Any] | None:
    """None for commits that are not ours: OPTIMIZE, VACUUM and SET TBLPROPERTIES carry no metadata."""
    try:
        values: Any = json.loads(text or "")
    except ValueError:
        return None
    return values if isinstance(values, dict) and values.pop("braid", None) == 1 else None


def newest_commit(table: str) -> Commit | None:
    """The newest commit of ingest, looking past everybody else's; what is kept of it when that one is cleaned up."""
    return _newest(table, Commit.from_json)


def commits(table: str) -> Iterator[tuple[int, Commit]]:
    """(version, commit) of ingest, newest first."""
    return described(table, Commit.from_json)


def newest_tail_commit(tail: str) -> TailCommit | None:
    """The newest commit of a stream, likewise."""
    return _newest(tail, TailCommit.from_json)


def _newest(table: str, parse: Callable[[str | None], Word | None]) -> Word | None:
    found = next((commit for _, commit in described(table, parse)), None)
    kept = parse(documents.read(f"{table}/{KEPT}")) if found is None else None
    newest: Word | None = writing.newest_word(found, kept, turns(table) if kept is not None else 0)
    return None if newest is None else replace(newest, turn=None)


def turns(table: str) -> int:
    """How many commits were counted, where each writer must prove that it is alone."""
    from braid.tables.delta_rs import transaction_number  # which reads what is said here

    return transaction_number(table, WRITERS)


def keep(table: str, last: Commit | TailCommit, turn: int) -> None:
    """Keeps what a writer said last, beside its commits, which are cleaned up after a while.

    Only while no writer is at work: each one takes it away before it writes, so that it is never older than a commit.
    Where another one may be at work all the same, commits take turns: the word has the number that there were then.
    """
    documents.write(f"{table}/{KEPT}", replace(last, turn=turn).to_json())


def keep_no_more(table: str) -> None:
    documents.remove(f"{table}/{KEPT}")


def described(table: str, parse: Callable[[str | None], Described | None]) -> Iterator[tuple[int, Described]]:
    """(version, commit) of one kind, newest first, as far as they are kept."""
    newest = newest_version(table)
    if newest is None:
        return
    for version, info in infos_back(lambda file: documents.read(f"{table}/{file}"), newest):
        if (commit := parse(info.get("userMetadata"))) is not None:
            yield version, commit


def epoch_of(moment: datetime, length: timedelta) -> datetime:
    """The start of the epoch in which a moment lies; epochs are counted from 1970 in UTC."""
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    return zero + (moment - zero) // length * length


def next_epoch(
    last: datetime | None, now: datetime, length: timedelta, waited: timedelta = timedelta(0)
) -> datetime:
    """The epoch of a commit made now, so long after the last epoch began."""
    return writing.next_epoch(last, epoch_of(now, length), waited, length)
