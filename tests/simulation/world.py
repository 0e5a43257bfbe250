"""All that is simulated: a clock, records, tables, checkpoints and processes; and what every number must be."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from braid.tables.commits import Commit, TailCommit
from braid.tables.tail_and_base import belongs
from tests.simulation.store import Failed, File, Saving, Table

LENGTH = 1
# What is kept of the commits: of a log longer than of a tail.
LOG_RETENTION, TAIL_RETENTION = 12, 5

Steps = Generator[None, None, None]


class Violation(AssertionError):
    """A number that a reader saw, or a state that a table was in, and that must not be."""


class Refused(Exception):
    """A command or a process that ends by saying what is wrong: nothing is written."""


class NotYet(Exception):
    """What can not be done now, and will be possible."""


@dataclass(frozen=True)
class Mark(TailCommit):
    """A commit to a tail that also says which log it was read from."""

    log: str = ""


@dataclass
class Checkpoint:
    """Spark's notes: what each batch is to read, and how many batches were finished."""

    query: str
    start: int = 0
    snapshot: int | None = None
    plans: list[Any] = field(default_factory=list)
    finished: int = 0


@dataclass(frozen=True)
class Takeover:
    """What a recovery of ingest notes: the checkpoint that it replaces, where the log ended, and after which batch."""

    query: str
    end: int
    batch: int


@dataclass
class Version:
    """One version of a view, and what lies on the disk of it."""

    number: int
    mode: str
    tail: Table | None = None
    base: Table | None = None
    checkpoint: Checkpoint | None = None
    replaces: str | None = None


@dataclass
class World:
    """A schedule changes it step by step. Every event is a digit of its own: sums show what is counted twice."""

    mode: str = "lambda"
    strict: bool = False
    clock: int = 100
    elapsed: int = 0
    names: int = 0
    records: list[tuple[int, int]] = field(default_factory=list)
    log: Table | None = None
    checkpoint: Checkpoint | None = None
    replaces: Takeover | None = None
    # By the log's life: (version, epoch, day, digit) of every row.
    rows: dict[str, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    versions: dict[int, Version] = field(default_factory=dict)
    active: int = 1
    previous: int | None = None
    fate: str | None = None
    # Something was lost or refused: what is safe need not be complete then.
    disturbed: bool = False
    steps: int = 0
    _seen: dict[int, Any] = field(default_factory=dict)
    _served: dict[str, dict[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.versions[1] = Version(1, self.mode)

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def arrive(self, day: int) -> None:
        self.records.append((day, 1 << 4 * len(self.records)))

    def save(self, saving: Saving, rows: dict[int, Any], keep: Any = None) -> int | None:
        """A commit, which the store may fail before or after it is made."""
        fate, self.fate = self.fate, None
        if fate == "before":
            raise Failed
        made = saving.commit(rows, self.elapsed, keep)
        if fate == "after":
            raise Failed
        return made

    def note_log(self, log: Table, version: int, epoch: int, offsets: range) -> None:
        """What ingest has appended: every record once, in order, none left out."""
        rows = self.rows.setdefault(log.life, [])
        for offset in offsets:
            day, digit = self.records[offset]
            if any(there[3] == digit for there in rows):
                raise Violation(f"the record {offset} is in the log twice")
            rows.append((version, epoch, day, digit))
        if rows and len(rows) < offsets.stop:
            raise Violation(f"a record before {offsets.stop} is not in the log")

    def all_is_closed(self, newest: int) -> None:
        """After ingest has ended by itself, what it wrote can be cut."""
        assert self.log is not None
        if any(epoch >= newest for _, epoch, _, _ in self.rows.get(self.log.life, ())):
            raise Violation("ingest has stopped, and what it wrote last can not be cut")

    def newest_log_word(self) -> Commit | None:
        return self.log.said_back(Commit) if self.log is not None else None

    def check(self) -> None:
        """What a reader would see that comes right now, in every version."""
        for version in self.versions.values():
            tail, base = version.tail, version.base
            if tail is None:
                continue
            there = (base.id, base.newest) if base is not None else (None, None)
            # Who reads refuses a base that lacks what left the tail.
            if not belongs(tail.kept, *there):
                continue
            state = (tail.id, tail.newest, *there)
            if self._seen.get(version.number) != state:
                self._seen[version.number] = state
                mark = tail.kept
                rows = [(f.part, f.rows) for f in tail.files[-1].values()]
                files = base.files[-1].values() if base is not None else ()
                self.compare(f"v{version.number}", tail, mark, rows, files)

    def compare(
        self, who: str, table: Table, mark: Any, tail: list[tuple[int, dict[int, int]]], base: Any
    ) -> None:
        """A reader's number of each day against the rows that the log has up to where the reader is."""
        from braid import cut

        through: dict[int, Any] = {}
        served: dict[int, int] = {}
        for file in base:
            covered, digits = file.rows
            through[file.part] = covered
            served[file.part] = served.get(file.part, 0) + digits
        for epoch, days in tail:
            for day, digits in days.items():
                if cut.is_beyond(epoch, through.get(day)):
                    served[day] = served.get(day, 0) + digits
        self._judge(who, table.properties["life"], mark, through, served)

    def _judge(self, who: str, log: str, mark: Any, through: dict[int, Any], served: dict[int, int]) -> None:
        position = mark.position if mark is not None else None
        reading = position is not None and position.starting
        upto = 0 if position is None else position.version
        expected: dict[int, int] = {}
        for version, epoch, day, digit in self.rows.get(log, ()):
            if (version < upto and not reading) or epoch <= through.get(day, -1):
                expected[day] = expected.get(day, 0) | digit
        for day in expected.keys() | served.keys():
            found, wanted = served.get(day, 0), expected.get(day, 0)
            if reading:
                twice = found & ~(int("1" * (len(hex(found)) - 2), 16))
                if twice or wanted & ~found:
                    raise Violation(f"{who}, day {day}: history is counted twice or was taken back")
            elif found != wanted:
                raise Violation(f"{who}, day {day}: served {names(found)}, in the log {names(wanted)}")

    def not_less(self, who: str, served: dict[int, int]) -> None:
        """What a reader was told before is not taken back."""
        before = self._served.get(who, {})
        for day, digits in before.items():
            if digits & ~served.get(day, 0):
                raise Violation(
                    f"{who}, day {day}: {names(digits)} was served before, {names(served.get(day, 0))} now"
                )
        self._served[who] = served


def names(digits: int) -> str:
    """The events in a sum, each with how often it is there where that is not once."""
    found = [(n, digits >> 4 * n & 15) for n in range((digits.bit_length() + 3) // 4)]
    return " ".join(f"e{n}" + (f"x{times}" if times > 1 else "") for n, times in found if times) or "nothing"


def throughs(files: dict[int, File]) -> dict[int, int]:
    return {file.part: file.rows[0] for file in files.values()}


Process = Callable[..., Steps]
