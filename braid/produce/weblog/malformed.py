"""The malformed records that real producers send, each with the reason for which ingest must refuse it."""

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from braid.produce.record import BROKEN_RULE, CLOCK, NO_EVENT_TIME, UNPARSABLE, WRONG_TYPE, Event

HUGE_BYTES = 100_000
NO_HTTP_CODES = (0, 999, -1)


class Parts(NamedTuple):
    """A good record taken apart: `{head}"time":...,{tail}` and `{body},"status":...}` are its text again."""

    event: Event
    text: str
    head: str
    tail: str
    body: str


class Flaw(NamedTuple):
    """A way to be bad: the reason that ingest gives, how often relative to the others, and the value sent."""

    reason: str
    weight: float
    value: Callable[[Parts], str | bytes | None]


FLAWS: Mapping[str, Flaw] = MappingProxyType(
    {
        "truncated JSON": Flaw(UNPARSABLE, 3, lambda good: good.text[: len(good.text) * 2 // 3]),
        "Latin-1 text": Flaw(
            UNPARSABLE,
            1,
            lambda good: good.text.replace('"url":"', '"url":"/caf\xe9').encode("latin-1", "replace"),
        ),
        "UTF-16 text": Flaw(UNPARSABLE, 1, lambda good: good.text.encode("utf-16")),
        "plain text": Flaw(UNPARSABLE, 1, lambda good: f"{good.event.host} - - {good.event.url}"),
        "empty value": Flaw(UNPARSABLE, 1, lambda good: b""),
        "null value": Flaw(UNPARSABLE, 1, lambda good: None),
        "JSON array": Flaw(UNPARSABLE, 1, lambda good: f"[{good.text}]"),
        "JSON scalar": Flaw(UNPARSABLE, 0.5, lambda good: str(good.event.time_ms)),
        # Rare, or by volume a long run would consist of them.
        "huge line": Flaw(UNPARSABLE, 0.02, lambda good: f'{good.text[:-1]},"padding":"{"x" * HUGE_BYTES}'),
        "status is a word": Flaw(WRONG_TYPE, 2, lambda good: good.body + ',"status":"OK","bytes":512}'),
        "bytes is an object": Flaw(
            WRONG_TYPE, 1, lambda good: good.body + ',"status":200,"bytes":{"body":512}}'
        ),
        "bytes has a unit": Flaw(WRONG_TYPE, 1, lambda good: good.body + ',"status":200,"bytes":"12 kB"}'),
        "time is a word": Flaw(WRONG_TYPE, 1, lambda good: f'{good.head}"time":"yesterday",{good.tail}'),
        "time is absent": Flaw(NO_EVENT_TIME, 2, lambda good: good.head + good.tail),
        "time is null": Flaw(NO_EVENT_TIME, 1, lambda good: f'{good.head}"time":null,{good.tail}'),
        "status is no HTTP code": Flaw(
            BROKEN_RULE,
            3,
            lambda good: f'{good.body},"status":{NO_HTTP_CODES[len(good.text) % 3]},"bytes":512}}',
        ),
        "year 9999": Flaw(CLOCK, 1, lambda good: f'{good.head}"time":"9999-12-31T23:59:59Z",{good.tail}'),
        "year 1900": Flaw(CLOCK, 1, lambda good: f'{good.head}"time":"1900-01-01T00:00:00Z",{good.tail}'),
    }
)


def flaws(rng: Random) -> Iterator[str]:
    """Each one once, so that a small run has them all, then at random by weight."""
    yield from FLAWS
    names, cumulative = list(FLAWS), list(accumulate(flaw.weight for flaw in FLAWS.values()))
    while True:
        yield from rng.choices(names, cum_weights=cumulative, k=100)


def spoil(flaw: str, event: Event, text: str) -> bytes | None:
    """The value of an event's record (`text` is its JSON, with id and time first) with this flaw."""
    head, rest = text.split('"time":', 1)
    parts = Parts(event, text, head, rest.split(",", 1)[1], text.partition(',"status":')[0])
    value = FLAWS[flaw].value(parts)
    return value.encode() if isinstance(value, str) else value
