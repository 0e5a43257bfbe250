"""Which rows of a view's tables a question needs, by time and by keys, as conditions on files and rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import reduce
from operator import and_, or_
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from braid.define.names import FrozenMap
from braid.define.windows import DAY
from braid.errors import BraidError
from braid.states.calendar import local_day

Wanted = tuple[str | None, ...]
# Days and windows around a time must be times too, in every zone.
FIRST_YEAR, LAST_YEAR = 1000, 9000


@dataclass(frozen=True)
class Scope:
    """Panes in [since, until), and keys with one of the values that are wanted; None among them is "no value"."""

    since: datetime | None = None
    until: datetime | None = None
    keys: Mapping[str, Wanted] = field(default_factory=FrozenMap)

    def days(self, zone: ZoneInfo) -> tuple[date | None, date | None]:
        """The first and the last day whose events may be in those panes.

        A day more on either side: where a zone's offset was no multiple of the pane, a pane reaches over midnight.
        """
        return self.since and local_day(self.since, zone) - DAY, self.until and local_day(
            self.until, zone
        ) + DAY


EVERYTHING = Scope()


def day_condition(scope: Scope, zone: ZoneInfo) -> Any:
    """The condition on `day` as an Arrow expression; None when every day is needed."""
    first, last = scope.days(zone)
    conditions = [] if first is None else [pc.field("day") >= pa.scalar(first, pa.date32())]
    conditions += [] if last is None else [pc.field("day") <= pa.scalar(last, pa.date32())]
    return reduce(and_, conditions) if conditions else None


def condition(scope: Scope, schema: pa.Schema, zone: ZoneInfo) -> Any:
    """Everything that the scope asks of a row; None when every row is needed."""
    conditions = [day_condition(scope, zone)]
    for bound, compare in ((scope.since, "__ge__"), (scope.until, "__lt__")):
        if bound is not None:
            moment = pa.scalar(bound.astimezone(UTC), pa.timestamp("us", "UTC"))
            conditions.append(getattr(pc.field("pane"), compare)(moment))
    for key, values in wanted_values(scope.keys, schema, zone).items():
        equal = [pc.field(key) == value for value in values.drop_null()]
        missing = [pc.field(key).is_null()] if values.null_count else []
        conditions.append(reduce(or_, equal + missing))
    present = [each for each in conditions if each is not None]
    return reduce(and_, present) if present else None


def wanted_values(keys: Mapping[str, Wanted], schema: pa.Schema, zone: ZoneInfo) -> dict[str, pa.Array]:
    """The values of keys that a question names, each in the type that it has in the view's tables; null is no value."""
    found = {}
    for key, texts in keys.items():
        kind = schema.field(key).type
        values = [None if text is None else typed(text, kind, key, zone).as_py() for text in texts]
        found[key] = pa.array(values, kind)
    return found


def typed(text: str, kind: pa.DataType, key: str, zone: ZoneInfo) -> pa.Scalar:
    """A key's value as people write it, in the key's own type."""
    if pa.types.is_timestamp(kind) and kind.tz:
        return pa.scalar(parse_moment(text, zone, f"key {key!r}"), kind)
    try:
        return pa.scalar(text, pa.string()).cast(kind)
    except (pa.ArrowException, OverflowError, UnicodeError):
        raise BraidError(
            f"key {key!r} cannot be {text!r}: its values are of type {kind}, such as {_example(kind)}."
        ) from None


def parse_moment(text: str, zone: ZoneInfo, what: str) -> datetime:
    """ISO 8601; without an offset it is the time in this zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BraidError(
            f"{what} is {text!r}, which is not a time: write it as 2024-03-08, 2024-03-08T14:30 (in {zone}) or "
            "2024-03-08T14:30Z."
        ) from None
    if not FIRST_YEAR <= moment.year < LAST_YEAR:
        raise BraidError(f"{what} is {text!r}: use a time between the years {FIRST_YEAR} and {LAST_YEAR}.")
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)


def _example(kind: pa.DataType) -> str:
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "2024-03-08"
    return "true or false" if pa.types.is_boolean(kind) else "42"
