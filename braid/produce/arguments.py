"""Reads what people write on the command line of `braid produce`; a slip is answered with the right way to say it."""

from collections.abc import Sequence
from datetime import date, timedelta

from braid.errors import BraidError


def parse_start(text: str, days: int, today: date) -> date:
    """The first day. Events of the future would be refused by ingest, and the truth would not be one."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise BraidError(f"--start {text!r} is not a day: write it as 2024-03-08.") from None
    if day.toordinal() + days - 1 > today.toordinal():
        raise BraidError(
            f"--start {text} and --days {days} reach into the future, which ingest refuses: the last day can be "
            f"{today - timedelta(days=1)}."
        )
    return day


def parse_renames(texts: Sequence[str]) -> dict[str, str]:
    """`status=response` -> the new name and the column's name in the file."""
    pairs = [text.partition("=") for text in texts]
    for text, (new, _, old) in zip(texts, pairs, strict=True):
        if not (new and old):
            raise BraidError(f"--map {text!r} is not understood: write NEW=OLD, such as status=response.")
    for names in ([new for new, _, _ in pairs], [old for _, _, old in pairs]):
        if len(set(names)) < len(names):
            raise BraidError(f"--map names a column twice ({', '.join(texts)}): rename each column once.")
    return {new: old for new, _, old in pairs}


def parse_delimiter(text: str | None) -> str | None:
    r"""One character. A tab is hard to type, so `\t` and `tab` are one too."""
    if text is None:
        return None
    character = "\t" if text in ("\\t", "tab") else text
    if len(character) != 1 or character in '"\r\n':
        raise BraidError(f"--delimiter {text!r} is not one character: use ',', ';', '|' or tab.")
    return character


def check_sending(rate: float, partitions: int) -> None:
    if not 0 <= rate < float("inf"):
        raise BraidError(f"--rate {rate} is not a rate: use records a second, or 0 for as fast as possible.")
    if not 1 <= partitions <= 10_000:
        raise BraidError(f"--partitions {partitions} is not possible: use 1 or more, such as 3.")
