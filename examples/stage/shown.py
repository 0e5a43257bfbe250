"""What a play leaves behind: tables that a person enjoys, and checks against the truth; as text and as plain data."""

from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from examples.stage.checks import TruthCheck, text


@dataclass(frozen=True)
class Shown:
    """A table of results; the columns that are `drawn` are also bars, stacked or side by side, or lines.

    A picture marks the rows of which the column `marked` is not nought.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    drawn: tuple[str, ...] = ()
    stacked: bool = True
    lines: bool = False
    marked: str | None = None


@dataclass(frozen=True)
class Played:
    """The results and the checks of one play."""

    results: tuple[Shown, ...]
    checks: tuple[TruthCheck, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        results = [
            asdict(one) | {"rows": [list(map(_plain, row)) for row in one.rows]} for one in self.results
        ]
        return {"ok": self.ok, "results": results, "checks": [asdict(check) for check in self.checks]}


def _plain(value: object) -> object:
    """Numbers stay numbers; money and times are text."""
    if isinstance(value, Decimal):
        return str(value)
    return text(value) if isinstance(value, datetime) else value
