"""What a play or a demo leaves behind: each number that was found beside the true one, and tables that a person enjoys.

Exact numbers are compared exactly, sketches within the error that they state.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from braid.define.view import View
from braid.examples.stage.naive import Answer
from braid.measures import Measure
from braid.measures.base import FLOAT_TOLERANCE


@dataclass(frozen=True)
class TruthCheck:
    """Something that was found beside what is true."""

    name: str
    ok: bool
    found: str
    expected: str


def equal(name: str, found: object, expected: object) -> TruthCheck:
    return TruthCheck(name, found == expected, text(found), text(expected))


def against_truth(name: str, view: View, found: Answer, true: Answer) -> TruthCheck:
    """The rows of a view beside those of the naive answer."""
    return _check(name, view.measures, found, true, approximately=True)


def identical(name: str, view: View, found: Answer, other: Answer) -> TruthCheck:
    """Two ways to the same rows: sketches too must say the same."""
    return _check(name, view.measures, found, other, approximately=False)


def text(value: object) -> str:
    """A value as people write it."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, dict):
        return "\n".join(f"{key}: {text(item)}" for key, item in sorted(value.items()))
    if isinstance(value, list):
        return ", ".join(map(text, value))
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}" if value.second else f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, int | Decimal):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _check(
    name: str, measures: Mapping[str, Measure], found: Answer, true: Answer, approximately: bool
) -> TruthCheck:
    wrong = list(_wrong(measures, found, true, approximately))
    says, wanted = f"{len(found.keys() | true.keys()) - len(wrong):,} rows equal", f"{len(true):,} rows"
    if wrong:
        says, wanted = (f"{words}\n{_row(side, wrong[0])}" for words, side in ((says, found), (wanted, true)))
    return TruthCheck(name, not wrong and bool(true), says, wanted)


def _wrong(
    measures: Mapping[str, Measure], found: Answer, true: Answer, approximately: bool
) -> Iterator[tuple[Any, ...]]:
    for group in sorted(found.keys() | true.keys(), key=str):
        mine, theirs = found.get(group, {}), true.get(group, {})
        if not (mine and theirs) or not all(
            _same(measure, mine[name], theirs[name], approximately) for name, measure in measures.items()
        ):
            yield group


def _same(measure: Measure, mine: Any, theirs: Any, approximately: bool) -> bool:
    bound = measure.error if approximately else None
    if mine is None or theirs is None or not (bound or isinstance(mine, float)):
        return bool(mine == theirs)
    return math.isclose(mine, theirs, rel_tol=bound or FLOAT_TOLERANCE)


def _row(side: Answer, group: tuple[Any, ...]) -> str:
    numbers = side.get(group)
    shown = "nothing" if numbers is None else ", ".join(f"{name} {text(n)}" for name, n in numbers.items())
    return f"{', '.join(map(text, group))}: {shown}"


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
