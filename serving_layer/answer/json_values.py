"""Turns values into what JSON can hold without loss, with instants in the source's zone, and back into their types."""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

SECOND = 1_000_000
QUARTER = 15 * 60 * SECOND
# Rows that are turned into text at a time: some milliseconds.
PART = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plain_rows(rows: pa.Table, zone: ZoneInfo) -> list[dict[str, Any]]:
    columns = [plain_column(rows[name], zone) for name in rows.column_names]
    return [dict(zip(rows.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def parts_of(rows: pa.Table) -> Iterator[pa.Table]:
    """All rows, some at a time: what is turned into text as a whole keeps every other thread waiting meanwhile."""
    for start in range(0, len(rows), PART):
        yield rows.slice(start, PART)


def plain_column(column: pa.ChunkedArray | pa.Array, zone: ZoneInfo) -> list[Any]:
    """All values of a column, at once where their kind allows it."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return list(column.to_pylist())
    if pa.types.is_decimal(kind) and kind.scale == 0 and _is_small(column):
        return list(column.cast(pa.int64()).to_pylist())
    if pa.types.is_timestamp(kind) and kind.tz and (texts := _moments(column, zone)) is not None:
        return list(texts)
    return [None if value is None else plain(value, zone) for value in column.to_pylist()]


def plain(value: Any, zone: ZoneInfo) -> Any:
    """A value as JSON can hold it; instants are shown in the zone, with their offset."""
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(zone)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        # Whole numbers stay numbers; a fraction would become a float in most readers, and is exact as text.
        return int(value) if value == value.to_integral_value() and _scale(value) == 0 else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def typed_array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Plain values of a column in the column's own type again."""
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else Decimal(value) for value in values], kind)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_floating(kind):
        texts = [None if value is None else str(value) for value in values]
        return pa.array(texts, pa.string()).cast(kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if value is None else bytes.fromhex(value) for value in values], kind)
    return pa.array(values, kind)


def _moments(column: pa.ChunkedArray | pa.Array, zone: ZoneInfo) -> list[str | None] | None:
    """What `isoformat` says of each; None where that has to be asked of each.

    The clock is asked once for each quarter of an hour: where it is the same at both ends, it is the same between.
    """
    micros = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    quarters = pc.divide(pc.subtract(micros, _into(micros, QUARTER)), QUARTER)
    offsets: dict[int, int] = {}
    for quarter in quarters.unique().drop_null().to_pylist():
        first, last = (
            _utc_offset(moment, zone) for moment in (quarter * QUARTER, (quarter + 1) * QUARTER - 1)
        )
        if first != last:
            return None
        offsets[quarter] = first
    if pc.any(pc.not_equal(_into(micros, SECOND), 0)).as_py():
        return None
    shifts = pa.array([None if q is None else offsets[q] for q in quarters.to_pylist()], pa.int64())
    local = pc.add(pc.divide(micros, SECOND), shifts).cast(pa.timestamp("s"))
    ends = {offset: _offset(offset) for offset in offsets.values()}
    texts: list[str | None] = pc.strftime(local, "%Y-%m-%dT%H:%M:%S").to_pylist()
    return [
        None if text is None else text + ends[shift]
        for text, shift in zip(texts, shifts.to_pylist(), strict=True)
    ]


def _into(micros: pa.ChunkedArray, length: int) -> pa.ChunkedArray:
    """How far into a multiple of the length each lies: the remainder, also before 1970."""
    cut = pc.multiply(pc.divide(micros, length), length)
    rest = pc.subtract(micros, cut)
    return pc.if_else(pc.less(rest, 0), pc.add(rest, length), rest)


def _utc_offset(micros: int, zone: ZoneInfo) -> int:
    offset = (_EPOCH + timedelta(microseconds=micros)).astimezone(zone).utcoffset()
    return 0 if offset is None else offset // timedelta(seconds=1)


def _offset(seconds: int) -> str:
    """-18000 -> "-05:00"."""
    sign, rest = ("-", -seconds) if seconds < 0 else ("+", seconds)
    text = f"{sign}{rest // 3600:02}:{rest // 60 % 60:02}"
    return f"{text}:{rest % 60:02}" if rest % 60 else text


def _is_small(column: pa.ChunkedArray | pa.Array) -> bool:
    try:
        column.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def _scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0
