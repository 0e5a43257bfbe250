"""Reads a record as Spark would, where there can be no doubt: what is written plainly, and as its type wants it.

The ledger asks of thousands of records whether ingest would have accepted them. Nearly all are written as machines
write: those are read here. For all others, and for the few whose rules would have to be computed, it asks Spark.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from braid.define.expressions import identifiers
from braid.define.schema import is_decimal
from braid.define.source import Source

LONGEST = 1_000_000
PLAIN_FORMATS = ("json", "csv")
BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)")
DATE = re.compile(r"[12]\d{3}-\d\d-\d\d")
NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,6})?")
WHOLE = re.compile(r"-?\d{1,19}")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DoubtfulError(Exception):
    """Only Spark can say how this is read."""


def read(source: Source, value: bytes, arrival: datetime) -> dict[str, Any]:
    """The columns of a record that ingest accepts, if no rule says otherwise."""
    if len(value) > LONGEST or source.format not in PLAIN_FORMATS:
        raise DoubtfulError
    try:
        fields = (_json if source.format == "json" else _csv)(source, value.decode())
        typed = {name: _typed(source, fields.get(name), kind) for name, kind in source.columns.items()}
        when = typed[source.event_time]
        if when is None or not source.earliest <= when <= arrival + source.ahead:
            raise DoubtfulError
    except (ValueError, OverflowError, ArithmeticError) as error:
        raise DoubtfulError from error
    return typed


def ruled(source: Source) -> tuple[str, ...]:
    """The columns that the rules look at: a record with the same values there as an accepted one breaks no rule."""
    named = {name.lower() for sql in source.rules.values() for name in identifiers(sql)}
    return tuple(name for name in source.columns if name.lower() in named)


def _json(_source: Source, text: str) -> Mapping[str, Any]:
    found = json.loads(text, object_pairs_hook=_once, parse_float=_exact, parse_constant=_doubtful)
    if not isinstance(found, dict):
        raise DoubtfulError
    return found


def _csv(source: Source, text: str) -> Mapping[str, Any]:
    cells = text.split(source.delimiter)
    if len(cells) != len(source.columns) or '"' in text or "\\" in text or text != text.strip():
        raise DoubtfulError
    return dict(zip(source.columns, (_cell(cell) for cell in cells), strict=True))


class _Cell(str):
    """A text that stands for a value of any type."""

    __slots__ = ()


def _cell(text: str) -> _Cell | None:
    if text != text.strip():
        raise DoubtfulError
    return _Cell(text) if text else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _doubtful("")


def _exact(text: str) -> Decimal:
    return Decimal(text) if "e" not in text.lower() else _doubtful(text)


def _doubtful(_: str) -> Any:
    raise DoubtfulError


def _typed(source: Source, value: Any, kind: str) -> Any:
    if value is None:
        return None
    if isinstance(value, _Cell):
        value = _from_cell(str(value), kind)
    if kind == "timestamp":
        return _moment(source, value)
    if kind.startswith("array<") and isinstance(value, list):
        inner = kind.removeprefix("array<").removesuffix(">")
        if inner in PLAIN:
            return [_typed(source, one, inner) for one in value]
    elif is_decimal(kind) and type(value) in (int, Decimal):
        return _decimal(Decimal(value), kind)
    elif kind in PLAIN and PLAIN[kind](value):
        return float(value) if kind == "double" else date.fromisoformat(value) if kind == "date" else value
    raise DoubtfulError


def _is_whole(bits: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and -(1 << bits - 1) <= value < 1 << bits - 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.encode() is not None


# Which values of JSON are surely of a type: Spark reads nothing else into it, or nobody has looked.
PLAIN: Mapping[str, Callable[[Any], bool]] = {
    **{kind: _is_whole(bits) for kind, bits in BITS.items()},
    "double": lambda value: type(value) in (int, Decimal),
    "string": _is_text,
    "boolean": lambda value: isinstance(value, bool),
    "date": lambda value: isinstance(value, str) and DATE.fullmatch(value) is not None,
}


def _from_cell(text: str, kind: str) -> Any:
    if kind in ("string", "date", "timestamp"):
        return text
    if kind in BITS and WHOLE.fullmatch(text):
        return int(text)
    if (kind == "double" or is_decimal(kind)) and NUMBER.fullmatch(text):
        return Decimal(text)
    raise DoubtfulError


def _moment(source: Source, value: Any) -> datetime:
    """A date and time with its zone, or a number where the source's format has numbers."""
    text = str(value)
    if source.time_format in (None, "epoch_seconds") and NUMBER.fullmatch(text):
        if source.time_format is None and text[4:5] == "-":
            raise DoubtfulError
        return EPOCH + timedelta(microseconds=int(Decimal(text) * 1_000_000))
    if source.time_format == "epoch_millis" and WHOLE.fullmatch(text):
        return EPOCH + timedelta(milliseconds=int(text))
    if source.time_format is None and isinstance(value, str) and ISO.fullmatch(value):
        return datetime.fromisoformat(value)
    raise DoubtfulError


def _decimal(value: Decimal, kind: str) -> Decimal:
    precision, scale = map(int, kind.removeprefix("decimal(").removesuffix(")").split(","))
    if value != round(value, scale) or abs(value) >= 10 ** (precision - scale):
        raise DoubtfulError
    return value
