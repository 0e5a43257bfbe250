"""What is expected of a day before it may be published: values beside the source and the view."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from braid.define.durations import format_duration, parse_duration
from braid.define.expressions import require_expression, require_known, require_per_event
from braid.define.names import require_text, set_field, suggest
from braid.errors import DefinitionError
from braid.measures import Measure
from braid.measures.aggregates import Count, Sum

# The mean of one or two days says little about the next: until so many are known, a volume is not judged.
FEWEST_DAYS = 3


def _require_share(value: object, part: str) -> None:
    _require_number(value, part, lambda share: 0 <= share <= 1, "a share between 0 and 1, such as 0.99")


def _require_number(value: object, part: str, allowed: Callable[[Any], bool], example: str) -> None:
    number = getattr(value, part)
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not allowed(number) or number == float("inf"):
        raise DefinitionError(f"{type(value).__name__}: {part} is {number!r}: write {example}.")


@dataclass(frozen=True)
class Volume:
    """The day's events, as a multiple of the mean of those of the `days` before it that had any."""

    name = "events against the days before"

    at_least: float = 0.5
    at_most: float = 2.0
    days: int = 7

    def __post_init__(self) -> None:
        _require_number(self, "at_least", lambda value: value >= 0, "a multiple, such as 0.5")
        _require_number(
            self,
            "at_most",
            lambda value: value >= self.at_least,
            "a multiple that is not below at_least, such as 2.0",
        )
        _require_number(
            self,
            "days",
            lambda value: isinstance(value, int) and value >= FEWEST_DAYS,
            f"a whole number of days, {FEWEST_DAYS} or more, such as 7",
        )


@dataclass(frozen=True)
class Filled:
    """The share of the day's events that have a value in a column."""

    column: str
    at_least: float = 0.99

    def __post_init__(self) -> None:
        require_text(self.column, "Filled: column", "url")
        _require_share(self, "at_least")

    @property
    def name(self) -> str:
        return f"share of events with a value in {self.column!r}"


@dataclass(frozen=True)
class Holds:
    """The share of the day's events for which an SQL condition is not false; as with rules, null is not false."""

    says: str
    sql: str
    at_least: float = 0.99

    def __post_init__(self) -> None:
        require_text(self.says, "Holds: what it says", "status is plausible")
        require_expression(self.sql, f"Holds({self.says!r})")
        require_per_event(self.sql, f"Holds({self.says!r})")
        _require_share(self, "at_least")

    @property
    def name(self) -> str:
        return f"share of events for which {self.says!r}"


@dataclass(frozen=True)
class Arrived:
    """The newest of the day's events arrived at most so long before the day's end: the source did not go silent."""

    name = "arrival of the day's newest event"

    by: str = "2 hours"

    def __post_init__(self) -> None:
        try:
            set_field(self, "by", format_duration(parse_duration(self.by)))
        except DefinitionError as error:
            raise DefinitionError(f"Arrived: by: {error}") from None


@dataclass(frozen=True)
class Quarantined:
    """The share of rejected records among those that came with the day's events."""

    name = "share of quarantined records"

    at_most: float = 0.1

    def __post_init__(self) -> None:
        _require_share(self, "at_most")


@dataclass(frozen=True)
class NotNegative:
    """No stored count is below zero."""

    name = "lowest count"


@dataclass(frozen=True)
class KeysPresent:
    """The share of the day's events that have a value in every key of the view."""

    name = "share of events with all keys"

    at_least: float = 1.0

    def __post_init__(self) -> None:
        _require_share(self, "at_least")


@dataclass(frozen=True)
class AddsUp:
    """The states hold as many events as went in: none was lost and none was counted twice."""

    name = "events in the states beyond those that went in"


@dataclass(frozen=True)
class Drift:
    """How far a measure's total for the day moved from the last published one, as a share of that."""

    measure: str
    at_most: float = 0.5

    def __post_init__(self) -> None:
        require_text(self.measure, "Drift: measure", "hits")
        _require_number(
            self, "at_most", lambda value: value >= 0, "a share of the published total, such as 0.5"
        )

    @property
    def name(self) -> str:
        return f"change of {self.measure!r} since it was last published"


InputExpectation = Volume | Filled | Holds | Arrived | Quarantined
OutputExpectation = NotNegative | KeysPresent | AddsUp | Drift

# They hold only days that are really wrong: a broken format, and faults of Braid's own.
INPUT_DEFAULT: tuple[InputExpectation, ...] = (Quarantined(at_most=0.2),)
# Without KeysPresent: a null key is legitimate, as where a lookup has no row.
OUTPUT_DEFAULT: tuple[OutputExpectation, ...] = (NotNegative(), AddsUp())


def has_total(measure: Measure) -> bool:
    """Whether the measure's states of a day add up to one number."""
    return isinstance(measure, Count | Sum)


def require_input(expect: object, columns: Iterable[str], what: str) -> tuple[InputExpectation, ...]:
    """What a source may expect of its columns, as a tuple."""
    known = list(columns)
    found = _members(expect, InputExpectation, what, "Quarantined(at_most=0.1)")
    for one in found:
        if isinstance(one, Filled) and one.column not in known:
            raise DefinitionError(
                f"{what}: {one!r}: {one.column!r} is not a column. {suggest(one.column, known, 'columns')}"
            )
        if isinstance(one, Holds):
            require_known(one.sql, known, f"{what}: Holds({one.says!r})")
    return found


def require_output(
    expect: object, keys: tuple[str, ...], measures: Mapping[str, Measure], what: str
) -> tuple[OutputExpectation, ...]:
    """What a view may expect of its keys and measures, as a tuple."""
    found = _members(expect, OutputExpectation, what, "Drift('hits', at_most=0.5)")
    summable = [name for name, measure in measures.items() if has_total(measure)]
    for one in found:
        if isinstance(one, KeysPresent) and not keys:
            raise DefinitionError(f"{what}: {one!r}: the view has no keys: remove it, or give the view keys.")
        if isinstance(one, Drift) and one.measure not in measures:
            raise DefinitionError(
                f"{what}: {one!r}: {one.measure!r} is not a measure. {suggest(one.measure, measures, 'measures')}"
            )
        if isinstance(one, Drift) and one.measure not in summable:
            raise DefinitionError(
                f"{what}: {one!r}: {one.measure!r} has no total for a day, as a count or a sum has. "
                f"{suggest('', summable, 'measures that have one')}"
            )
    return found


def _members(expect: Any, kinds: Any, what: str, example: str) -> tuple[Any, ...]:
    found = (expect,) if isinstance(expect, kinds) else expect
    if not isinstance(found, tuple | list):
        raise DefinitionError(
            f"{what} is {expect!r}: write a tuple, such as ({example},), or () for nothing."
        )
    for one in found:
        if not isinstance(one, kinds):
            names = ", ".join(kind.__name__ for kind in kinds.__args__)
            raise DefinitionError(f"{what}: {one!r} does not belong here: use {names}.")
    seen: set[str] = set()
    for one in found:
        if one.name in seen:
            raise DefinitionError(f"{what}: the {one.name} is expected twice: remove one, or rename it.")
        seen.add(one.name)
    return tuple(found)
