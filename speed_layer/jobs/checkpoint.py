"""Reads Spark's checkpoint of a query: who it is, and what each of its batches was to read."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from braid.errors import BraidError
from braid.runtime import documents
from braid.tables.commits import Positions


@dataclass(frozen=True)
class Plan:
    """What one micro-batch reads: where it ends in each source, and the clock that it was given."""

    clock: datetime
    ends: tuple[Any, ...]

    def kafka_end(self, topic: str | None) -> Positions:
        """Partition -> offset behind the last one; nothing for sources that are not Kafka."""
        return next((dict(end[topic]) for end in self.ends if isinstance(end, dict) and topic in end), {})


@dataclass(frozen=True)
class Checkpoint:
    """A query's checkpoint folder."""

    folder: str
    mend: str

    def query_id(self) -> str | None:
        """None for a query that has never started."""
        if not documents.exists(f"{self.folder}/metadata"):
            return None
        return str(self._json(f"{self.folder}/metadata", lambda text: json.loads(text)["id"]))

    def last_batch(self) -> int | None:
        """The newest batch that was planned."""
        return max(self._numbers("offsets"), default=None)

    def has_finished_a_batch(self) -> bool:
        """One that was only planned leaves no rows behind."""
        return bool(self._numbers("commits"))

    def has_plan(self, batch: int) -> bool:
        """Spark keeps those of the newest hundred batches."""
        return documents.exists(f"{self.folder}/offsets/{batch}")

    def plan(self, batch: int) -> Plan:
        plan: Plan = self._json(f"{self.folder}/offsets/{batch}", _parse_plan)
        return plan

    def first_offsets(self, topic: str | None) -> Positions:
        """Where a Kafka source began; partitions that were added later begin at 0."""
        file = f"{self.folder}/sources/0/0"
        if topic is None or not documents.exists(file):
            return {}
        return dict(self._json(file, lambda text: json.loads(text[text.index("{") :]))[topic])

    def verify(self) -> None:
        """Refuses a checkpoint that cannot be read, before Spark meets it in the middle of a start."""
        self.query_id()
        # Spark reads the newest two plans and the newest commit when it starts.
        for batch in self._numbers("offsets")[-2:]:
            self._json(f"{self.folder}/offsets/{batch}", _parse_plan)
        for batch in self._numbers("commits")[-1:]:
            self._json(f"{self.folder}/commits/{batch}", lambda text: json.loads(text.split("\n")[1]))

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(name) for name in documents.names(f"{self.folder}/{folder}") if name.isdigit())

    def _json(self, file: str, parse: Callable[[str], Any]) -> Any:
        try:
            return parse(documents.read(file) or "")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise BraidError(f"the checkpoint file {file} is damaged. {self.mend}") from None


def _parse_plan(text: str) -> Plan:
    version, metadata, *ends = text.strip().split("\n")
    if version != "v1":
        raise ValueError(version)
    clock = datetime.fromtimestamp(json.loads(metadata)["batchTimestampMs"] / 1000, UTC)
    return Plan(clock, tuple(None if end == "-" else json.loads(end) for end in ends))
