"""What is kept beside a derived log: events on their way to ingest, and how far stream and batch have read the inputs.

Two documents, each with one writer: the stream's says up to which commit of each input's log it has drawn its
conclusions, batch's up to where it has looked for what the stream missed.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import chain

from braid.define.derived.base import Derived
from braid.errors import BraidError
from braid.log.table import Log
from braid.runtime import documents
from braid.tables.commits import Position

PATTERN = "*.jsonl"


@dataclass(frozen=True)
class Derivation:
    """What the stream of a derived source says of itself; the newest tells the whole story.

    `ends` are positions in the inputs' logs: batch after batch, each begins where the one before it ended. `late`
    counts inputs that came too late for it, but for the batches whose count a crash took (`uncounted`); that of the
    newest batch comes after it (`settled`).
    """

    definition: str
    query: str
    batch: int
    ends: dict[str, Position]
    events: int = 0
    late: int = 0
    uncounted: int = 0
    settled: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Derivation":
        values = json.loads(text)
        return cls(**(values | {"ends": {name: Position(**at) for name, at in values["ends"].items()}}))

    @property
    def versions(self) -> dict[str, int]:
        """Input -> the newest commit of its log that was read whole; -1 where none was."""
        return {name: -1 if at.starting else at.version - 1 for name, at in self.ends.items()}


@dataclass(frozen=True)
class Correction:
    """What batch says: the commits of the inputs' logs up to which it has looked for what the stream missed.

    Rows that come later are of this epoch, in microseconds, or of a later one.
    """

    versions: dict[str, int]
    epoch: int | None


@dataclass(frozen=True)
class DerivedPlaces:
    """Where what belongs to the log of a derived source lies."""

    log: Log
    root: str = field(init=False)

    def __post_init__(self) -> None:
        settings = self.log.settings
        object.__setattr__(self, "root", settings.location("derived", self.log.source.name))

    @property
    def events(self) -> str:
        """The folder from which ingest takes what the stream has drawn."""
        return f"{self.root}/events"

    @property
    def checkpoint(self) -> str:
        return self.log.settings.location("checkpoints", "derive", self.log.source.name)

    def derivation(self) -> Derivation | None:
        text = documents.read(f"{self.root}/stream.json")
        return Derivation.from_json(text) if text is not None else None

    def keep_derivation(self, one: Derivation) -> None:
        documents.write(f"{self.root}/stream.json", one.to_json())

    def correction(self) -> Correction | None:
        text = documents.read(f"{self.root}/batch.json")
        return Correction(**json.loads(text)) if text is not None else None

    def keep_correction(self, one: Correction) -> None:
        documents.write(f"{self.root}/batch.json", json.dumps(asdict(one)))

    def put(self, name: str, lines: Iterable[str]) -> int:
        """One file, there in one step or not at all; how many lines it has. Without lines there is none."""
        waiting = iter(lines)
        first = next(waiting, None)
        if first is None:
            return 0
        return documents.write_lines(f"{self.events}/{name}.jsonl", chain([first], waiting))


def refuse_other_definition(source: Derived, known: Derivation | None) -> None:
    """The log is never rewritten, and holds what another definition made of the same inputs."""
    if known is not None and known.definition != source.identity:
        raise BraidError(
            f"source {source.name!r} is defined otherwise than when its events were made, and a log is never "
            "rewritten. Give the changed one another name, such as "
            f"{source.name + '_2'!r}, and its views will be new ones; or take the change back."
        )
