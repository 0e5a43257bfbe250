"""A day that is to be audited, and what the audit said of it: values without Spark."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any

from braid.define.source import Source
from braid.define.view import View


@dataclass(frozen=True)
class InputDay:
    """A source's day up to a cut: what came along with its events, and how many the days before had."""

    source: Source
    day: date
    cut: datetime
    rejected: float
    """Rejected records that came with the day's events; a part of one where an arrival is shared by days."""
    trailing: tuple[int, ...]
    """Events of the days before, oldest first, as many as are known."""


@dataclass(frozen=True)
class OutputDay:
    """A view's day, recomputed up to a cut and not yet published."""

    view: View
    day: date
    cut: datetime
    events: int
    """Events that went into the states: after the view's filter."""
    published: Mapping[str, float] | None
    """Measure -> the day's total as last published; None for the first time."""


@dataclass(frozen=True)
class Check:
    """One expectation and what was found; `observed` is None when there was nothing to judge, and then it holds."""

    name: str
    ok: bool
    observed: float | str | None
    wanted: str

    def says(self) -> str:
        if self.observed is None:
            return f"{self.name}: nothing to judge, wanted {self.wanted}"
        found = self.observed if isinstance(self.observed, str) else f"{self.observed:.6g}"
        return f"{self.name} is {found}, wanted {self.wanted}"


@dataclass(frozen=True)
class Verdict:
    """What all expectations of a source or a view said of one day."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.ok)

    def says(self) -> str:
        """One sentence: what failed, with what was observed and what was wanted."""
        if self.failed:
            return "; ".join(check.says() for check in self.failed) + "."
        return f"all expectations hold ({len(self.checks)})." if self.checks else "nothing is expected."

    def to_json(self) -> dict[str, Any]:
        return {"passed": self.passed, "checks": [asdict(check) for check in self.checks]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Verdict":
        return cls(tuple(Check(**check) for check in document["checks"]))
