"""Texts of files as JSON values: by the type that the source declares, else by what they look like."""

import json
import re
from datetime import UTC, datetime
from typing import Any

from braid.define.schema import FLOATS, INTEGERS, is_decimal

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_INTEGER = re.compile(r"-?(0|[1-9]\d*)")
_EPOCH = re.compile(r"\d{9,10}|\d{12,13}")
_MILLIS_DIGITS = 12


class Raw(str):
    """JSON text that is kept as it was written: 1.10 stays 1.10, and no digit of a decimal is lost."""

    __slots__ = ()


def literal(text: str, type_name: str | None) -> str | Raw | None:
    """A cell as a JSON value. What does not fit its type stays a text, so that ingest refuses it with the reason."""
    if text == "":
        return None
    if type_name is None:
        return Raw(text) if _NUMBER.fullmatch(text) else text
    if type_name in INTEGERS:
        return Raw(text) if _INTEGER.fullmatch(text) else text
    if type_name in FLOATS or is_decimal(type_name):
        return Raw(text) if _NUMBER.fullmatch(text) else text
    if type_name == "boolean":
        return Raw(text.lower()) if text.lower() in ("true", "false") else text
    return text


def iso_time(text: str) -> str:
    """Epoch seconds or milliseconds as ISO-8601 in UTC; anything else as it is."""
    if not _EPOCH.fullmatch(text):
        return text
    moment = datetime.fromtimestamp(int(text) / (1000 if len(text) >= _MILLIS_DIGITS else 1), UTC)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace(
        "+00:00", "Z"
    )


def to_json(fields: dict[str, Any]) -> str:
    """One line of ASCII, in the order of the fields: whatever a text holds, it can be encoded."""
    return "{" + ",".join(f"{_text(name)}:{_text(value)}" for name, value in fields.items()) + "}"


def decode(data: bytes) -> str:
    """UTF-8 where it is that; otherwise Latin-1, in which every byte is a character."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _text(value: Any) -> str:
    return value if isinstance(value, Raw) else json.dumps(value)
