"""Numbers and lengths of time as people say them."""

from datetime import timedelta

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))

_BRIEF = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def length(seconds: float) -> str:
    """ "12 minutes", "1.5 hours", "0 seconds"."""
    for name, unit in _UNITS:
        if abs(seconds) >= unit or unit == 1:
            number = f"{seconds / unit:.3g}"
            return f"{number} {name}{'' if number == '1' else 's'}"
    raise AssertionError("every length has a unit")


def brief(seconds: float) -> str:
    """ "10 min", "1 h": for the axis of a plot and the head of a table."""
    name, unit = next((name, unit) for name, unit in _BRIEF if seconds >= unit or unit == 1)
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
