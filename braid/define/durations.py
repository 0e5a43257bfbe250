"""Lengths of time as people write them: "5 minutes", "1 hour", "250 milliseconds"."""

import re
from datetime import timedelta

from braid.errors import DefinitionError

_UNITS = {
    "millisecond": timedelta(milliseconds=1), "ms": timedelta(milliseconds=1),
    "second": timedelta(seconds=1), "s": timedelta(seconds=1),
    "minute": timedelta(minutes=1), "min": timedelta(minutes=1), "m": timedelta(minutes=1),
    "hour": timedelta(hours=1), "h": timedelta(hours=1),
    "day": timedelta(days=1), "d": timedelta(days=1),
    "week": timedelta(weeks=1), "w": timedelta(weeks=1),
}  # fmt: skip
# Largest first.
_NAMES = ("week", "day", "hour", "minute", "second", "millisecond")


def parse_duration(text: str | timedelta) -> timedelta:
    """ "5 minutes", "1h", "90 s" -> a positive timedelta; zero is written "0 seconds"."""
    if isinstance(text, timedelta):
        return text
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]+)\s*", str(text).lower())
    unit = found and (_UNITS.get(found[2]) or _UNITS.get(found[2].removesuffix("s")))
    if not found or not unit:
        raise DefinitionError(
            f"{text!r} is not a length of time: write a whole number and a unit, such as '30 seconds', "
            "'5 minutes', '1 hour' or '1 day'."
        )
    return int(found[1]) * unit


def format_duration(length: timedelta) -> str:
    """The largest unit that divides it: 300 s is "5 minutes"."""
    for name in _NAMES:
        if length and not length % _UNITS[name]:
            n = length // _UNITS[name]
            return f"{n} {name}{'' if n == 1 else 's'}"
    return f"{length.total_seconds():g} seconds"
