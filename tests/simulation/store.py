"""Tables in memory that behave as Delta's do: versions, optimistic commits with conflicts, clean-up, an identity."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

# A checkpoint every so many commits; then those that are older than the retention are cleaned up.
CHECKPOINT = 6


class Conflict(Exception):
    """Another commit was made that this one cannot stand beside."""


class Failed(Exception):
    """The store gave an error: the commit was made, or it was not."""


class File(NamedTuple):
    """A file: its number, the partition that it is in (a day or an epoch), and its rows."""

    number: int
    part: int
    rows: Any


class Done(NamedTuple):
    """One commit, as its file in the table's log tells it."""

    version: int
    said: Any
    added: tuple[File, ...]
    removed: tuple[File, ...]
    data_change: bool
    app: str | None
    time: int
    # Tells this commit from any other, also from one that took its place.
    mark: str = ""


class Table:
    """Every version of it, and the commits that are not cleaned up yet."""

    def __init__(self, name: str, retention: int, **properties: Any) -> None:
        self.id, self.retention, self.properties = name, retention, properties
        # A table that is restored from a backup has its id, and a life of its own.
        self.life = name
        self.files: list[dict[int, File]] = [{}]
        self.counts: list[dict[str, int]] = [{}]
        self.commits: list[Done | None] = [Done(0, None, (), (), True, None, 0)]
        # What a writer keeps beside the table while it rests: no clean-up finds it.
        self.note: Any = None
        # What its writer has said up to each version, for those who judge.
        self.keeps: list[Any] = [None]
        self.made = 0
        self._cleaned = 0

    @property
    def newest(self) -> int:
        return len(self.files) - 1

    @property
    def kept(self) -> Any:
        return self.keeps[-1]

    def commit_at(self, version: int) -> Done | None:
        """None when it is still to come, or cleaned up."""
        return self.commits[version] if version < len(self.commits) else None

    def said_back(self, kind: type) -> Any:
        """What a writer said last, as far back as commits are kept."""
        for done in reversed(self.commits):
            if done is None:
                return None
            if isinstance(done.said, kind):
                return done.said
        return None

    def since(self, version: int) -> Iterator[Done]:
        return (done for done in self.commits[version + 1 :] if done is not None)

    def as_of(self, version: int) -> "Table":
        """A backup: the same table, as it was."""
        old = Table(self.id, self.retention, **self.properties)
        old.files, old.counts = self.files[: version + 1], self.counts[: version + 1]
        old.commits, old.keeps = self.commits[: version + 1], self.keeps[: version + 1]
        old.made, old.life = self.made, f"{self.life}'"
        old._cleaned = min(self._cleaned, version)
        return old

    def clean_up(self, now: int) -> None:
        """As Delta does after a checkpoint: the commits before it that are older than the retention."""
        last = self.newest // CHECKPOINT * CHECKPOINT
        while self._cleaned < last:
            done = self.commits[self._cleaned]
            if done is not None and done.time > now - self.retention:
                break
            self.commits[self._cleaned] = None
            self._cleaned += 1


@dataclass
class Saving:
    """One transaction: it reads the newest version when it begins, and commits after all that came since."""

    table: Table
    said: Any
    data_change: bool = True
    app: str | None = None
    number: int = 0
    where: Callable[[int], bool] | None = None

    def __post_init__(self) -> None:
        self.read = self.table.newest
        there = self.table.files[self.read].values()
        self.removed = [file for file in there if self.where(file.part)] if self.where else []
        self.skipped = self.app is not None and self.table.counts[self.read].get(self.app, 0) >= self.number

    def commit(self, rows: dict[int, Any], now: int, keep: Any = None) -> int | None:
        """The version that this made, with a file for each partition; None when Delta skipped it."""
        if self.skipped:
            return None
        table = self.table
        if table.newest != self.read:
            gone = {file.number for file in self.removed}
            for done in table.commits[self.read + 1 :]:
                if done is None:
                    raise Conflict
                self._refuse(done, gone)
        files = dict(table.files[-1])
        for file in self.removed:
            files.pop(file.number, None)
        added = []
        for part, content in rows.items():
            table.made += 1
            file = File(table.made, part, content)
            files[file.number] = file
            added.append(file)
        table.files.append(files)
        counts = table.counts[-1]
        table.counts.append(counts if self.app is None else counts | {self.app: self.number})
        version = table.newest
        mark = f"{table.life} {version}"
        done = Done(
            version, self.said, tuple(added), tuple(self.removed), self.data_change, self.app, now, mark
        )
        table.commits.append(done)
        table.keeps.append(table.kept if keep is None else keep)
        if version % CHECKPOINT == 0:
            table.clean_up(now)
        return version

    def _refuse(self, done: Done, gone: set[int]) -> None:
        if self.app is not None and done.app == self.app:
            raise Conflict
        if any(file.number in gone for file in done.removed):
            raise Conflict
        if self.where and self.data_change and any(self.where(file.part) for file in done.added):
            raise Conflict
