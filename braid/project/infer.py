"""Guesses a source from a sample of its events: types, event time, id and zone, each guess with its reason."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from braid.errors import BraidError

Event = Mapping[str, Any]

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}:?\d{2})?")
_ZONED = re.compile(r"(Z|[+-]\d{2}:?\d{2})$")
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_TIMELY = ("event_time", "time", "timestamp", "ts", "occurred", "created", "placed", "at", "date")
_SECONDS = (datetime(2001, 9, 9, tzinfo=UTC).timestamp(), datetime(2100, 1, 1, tzinfo=UTC).timestamp())
# Money has two decimals, rates up to six: beyond that a number is a measurement, and no sum of it is exact.
_DECIMALS, _DIGITS = 6, 18
# What flows in a topic is not all well-formed: a few events without a time do not hide which field is theirs.
_NEARLY_ALL = 0.8


@dataclass(frozen=True)
class Guess:
    """What was guessed of a part of the source, and why."""

    part: str
    guess: str
    why: str


@dataclass(frozen=True)
class Inferred:
    """A source as a sample of its events suggests it, and a first view of it."""

    types: Mapping[str, str]
    event_time: str
    event_id: str | None
    time_format: str | None
    key: str | None
    total: str | None
    guesses: tuple[Guess, ...]

    @property
    def schema(self) -> str:
        return ", ".join(f"{_quoted(name)} {type_}" for name, type_ in self.types.items())


def infer(events: Sequence[Event], written: bool = False) -> Inferred:
    """From decoded JSON objects, or (`written`) from rows of texts, as CSV has them."""
    if not events:
        raise BraidError("the sample has no event that can be read: give one with at least one.")
    names = dict.fromkeys(name for event in events for name in event)
    columns = {name: _column(name, [event.get(name) for event in events], written) for name in names}
    moments = [name for name, one in columns.items() if one.type == "timestamp"]
    if not moments and len(timely := _with_a_time(events, names)) < len(events):
        found = infer(timely, written)
        few = f"{len(events) - len(timely)} of {len(events)} events have no time in {found.event_time}"
        left = Guess("left out", found.event_time, f"{few}: left out of the guesses")
        return replace(found, guesses=(*found.guesses, left))
    if not moments:
        seen = ", ".join(f"{name} {one.type}" for name, one in columns.items())
        raise BraidError(
            f"no field of the sample is a time, and every event needs one (found: {seen}). Times are written as "
            "2024-05-01T09:12:00Z or as seconds or milliseconds since 1970."
        )
    when = min(moments, key=lambda name: (_rank(name), moments.index(name)))
    types = {name: one.type for name, one in columns.items()}
    event_id, told = _id(events, types)
    zoned = [bool(_ZONED.search(str(event[when]))) for event in events if event.get(when) is not None]
    millis = [name for name in moments if columns[name].millis]
    others = [name for name in moments if name != when]
    guesses = [
        *(Guess(f"{name}", one.type, one.why) for name, one in columns.items()),
        Guess(
            "event_time", when, "; others are: ".join(["a time", *([", ".join(others)] if others else [])])
        ),
        Guess("event_id", str(event_id), told),
        Guess("timezone", "UTC", _zone(zoned, written=bool(millis) or not moments)),
    ]
    if millis:
        guesses.append(Guess("time_format", "epoch_millis", f"{millis[0]} has thirteen digits"))
    key = _key(events, types, {when, event_id})
    total = _total(types, {event_id, key, *moments})
    guesses.append(Guess("keys", str(key), "the text with the fewest values" if key else "no text repeats"))
    return Inferred(
        types, when, event_id, "epoch_millis" if millis else None, key, total, tuple(guesses)
    )  # fmt: skip


@dataclass(frozen=True)
class _Column:
    type: str
    why: str
    millis: bool = False


def _column(name: str, values: Sequence[Any], written: bool) -> _Column:
    """The narrowest type that all values have; what differs among them is a text."""
    present = [value for value in values if value is not None and not (written and value == "")]
    count = f"{len(present)} of {len(values)} have it"
    if not present:
        return _Column("string", "no value in the sample")
    if not written and all(isinstance(value, bool) for value in present):
        return _Column("boolean", count)
    if all(isinstance(value, Mapping) for value in present):
        inner = {key: None for value in present for key in value}
        fields = (
            f"{_quoted(key)}: {_column(key, [v.get(key) for v in present], written).type}" for key in inner
        )
        return _Column(f"struct<{', '.join(fields)}>", count)
    if all(isinstance(value, list) for value in present):
        return _Column(f"array<{_column(name, [one for v in present for one in v], written).type}>", count)
    texts = [_text(value, written) for value in present]
    if None in texts:
        return _Column("string", f"{count}, of several kinds")
    return _of_texts(name, [text for text in texts if text is not None], _are_text(present, written), count)


def _with_a_time(events: Sequence[Event], names: Iterable[str]) -> Sequence[Event]:
    """The events that have a time in the field in which nearly all of them do; all events when there is none."""
    for name in sorted(names, key=_rank):
        timely = [event for event in events if _TIME.fullmatch(str(event.get(name)))]
        if len(timely) >= _NEARLY_ALL * len(events):
            return timely
    return events


def _are_text(present: Sequence[Any], written: bool) -> bool:
    return not written and all(isinstance(value, str) for value in present)


def _of_texts(name: str, texts: Sequence[str], quoted: bool, count: str) -> _Column:
    if all(_TIME.fullmatch(text) for text in texts):
        return _Column("timestamp", count)
    if all(_DATE.fullmatch(text) for text in texts):
        return _Column("date", count)
    return _Column("string", count) if quoted else _of_bare_texts(name, texts, count)


def _of_bare_texts(name: str, texts: Sequence[str], count: str) -> _Column:
    """Numbers, and what a CSV file says without saying what it is."""
    if all(text.lower() in ("true", "false") for text in texts):
        return _Column("boolean", count)
    if all(_WHOLE.fullmatch(text) for text in texts):
        return _whole(name, texts, count)
    if all(_NUMBER.fullmatch(text) for text in texts):
        return _number(texts, count)
    return _Column("string", count)


def _whole(name: str, texts: Sequence[str], count: str) -> _Column:
    first, last = _SECONDS
    for factor, digits in ((1, "seconds"), (1000, "milliseconds")):
        if _rank(name) < len(_TIMELY) and all(first * factor <= int(text) < last * factor for text in texts):
            return _Column("timestamp", f"{count}, as {digits} since 1970", factor == 1000)
    return _Column("bigint", count)


def _number(texts: Sequence[str], count: str) -> _Column:
    numbers = [Decimal(text) for text in texts]
    scale = max(max(0, -int(number.as_tuple().exponent)) for number in numbers)
    whole = max(len(str(abs(int(number)))) for number in numbers)
    if scale <= _DECIMALS and whole + scale <= _DIGITS:
        return _Column(
            f"decimal({_DIGITS},{scale})", f"{count}, with up to {scale} decimals: its sums are exact"
        )
    return _Column("double", f"{count}, with {scale} decimals")


def _text(value: Any, written: bool) -> str | None:
    """A value as it would be written; None for what is of another kind than numbers and texts."""
    if isinstance(value, str):
        return value
    if written or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return repr(value) if isinstance(value, float) else str(value)


def _id(events: Sequence[Event], types: Mapping[str, str]) -> tuple[str | None, str]:
    """A field that each event has, and that no two different events share. Copies of one event do."""
    different = list({repr(sorted(event.items(), key=str)): event for event in events}.values())
    plain = [name for name, type_ in types.items() if type_ in ("string", "bigint")]
    named = [name for name in plain if re.search(r"(^|_)(u?u?id|key|no|number)$", _snake(name))]
    for name in named:
        values = [event.get(name) for event in different]
        if None not in values and len(set(values)) == len(values):
            copies = len(events) - len(different)
            told = f"no two of {len(different)} events share it" + (
                f"; {copies} came twice" if copies else ""
            )
            return name, told
    return None, "no field is named like an id and differs in every event: copies cannot be told apart"


def _zone(zoned: Iterable[bool], written: bool) -> str:
    found = set(zoned)
    if written:
        return "times are numbers, which mean the same everywhere; days begin in this zone"
    if found == {True}:
        return "every time names its own zone; days begin in this one"
    return "times name no zone: they are read as this one's wall clock, so name yours if it is another"


def _key(events: Sequence[Event], types: Mapping[str, str], taken: set[str | None]) -> str | None:
    texts = [name for name, type_ in types.items() if type_ == "string" and name not in taken]
    counted = {name: len({str(event.get(name)) for event in events}) for name in texts}
    repeated = [name for name in texts if 1 < counted[name] <= max(2, len(events) // 2)]
    return min(repeated, key=lambda name: counted[name], default=None)


def _total(types: Mapping[str, str], taken: set[str | None]) -> str | None:
    for wanted in ("decimal", "bigint"):
        for name, type_ in types.items():
            if type_.startswith(wanted) and name not in taken and not _snake(name).endswith("id"):
                return name
    return None


def _rank(name: str) -> int:
    """How much a name sounds like the time of an event; the most like it first."""
    words = _snake(name).split("_")
    ranks: Iterator[int] = (
        place for place, word in enumerate(_TIMELY) if word == _snake(name) or word in words
    )
    return next(ranks, len(_TIMELY))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z]\w*", name) else f"`{name}`"
