"""Lengths of time as people write them ("5 minutes", "1 hour"), and how lengths and shares are said to people."""

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

# Largest first, in seconds.
_LONG = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
_SHORT = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


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


def length(seconds: float) -> str:
    """ "12 minutes", "1.5 hours", "0 seconds"."""
    for name, unit in _LONG:
        if abs(seconds) >= unit or unit == 1:
            number = f"{seconds / unit:.3g}"
            return f"{number} {name}{'' if number == '1' else 's'}"
    raise AssertionError("every length has a unit")


def brief(seconds: float) -> str:
    """ "10 min", "1 h": for the axis of a plot and the head of a table."""
    name, unit = next((name, unit) for name, unit in _SHORT if seconds >= unit or unit == 1)
    return f"{seconds / unit:.3g} {name}"


def percent(share: float | None) -> str:
    """Never rounded to all or nothing: 99.999 % is not 100 %. Nothing for what is not known."""
    if share is None:
        return ""
    if share in (0, 1):
        return f"{share:.0%}".replace("%", " %")
    for digits in range(1, 7):
        text = f"{share * 100:.{digits}f}"
        if float(text) not in (0, 100):
            return f"{text} %"
    return f"{share * 100:.2g} %"


def rounded_up(micros: int) -> timedelta:
    """The next length of time that a person would write: whole seconds, minutes, hours or days."""
    seconds = micros // 1_000_000 + 1
    for limit, unit in ((60, 1), (3_600, 60), (86_400 * 2, 3_600)):
        if seconds <= limit:
            return timedelta(seconds=-(-seconds // unit) * unit)
    return timedelta(days=-(-seconds // 86_400))
