"""What a demo has proven: each number that was found beside the true one."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True)
class Check:
    """Something that was found beside what is true."""

    name: str
    ok: bool
    found: str
    expected: str


def equal(name: str, found: object, expected: object) -> Check:
    return Check(name, found == expected, text(found), text(expected))


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
