"""Reports as plain data: what JSON can hold, and what is stored and served."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from serving_layer.accuracy.report.headline import headline
from serving_layer.accuracy.report.values import Report


def document(report: Report) -> dict[str, Any]:
    """All of a report, with what follows from it."""
    plain: dict[str, Any] = _plain(report)
    return {"headline": headline(report), "holds": report.holds} | plain


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        own = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return own | {name: _plain(getattr(value, name)) for name in _derived(type(value))}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return _atom(value)


def _atom(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    # JSON has no word for what is not a number, or has no end.
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Decimal) else value


def _derived(kind: type) -> tuple[str, ...]:
    """What a reader of the document should not have to work out again."""
    return tuple(
        name for name in ("share", "largest_error", "holds") if isinstance(vars(kind).get(name), property)
    )
