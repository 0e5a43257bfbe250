"""A join of two sources: each pair of events with one key, within some time of each other, is an event."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from braid.define.derived.base import ID, TIME, Derived
from braid.define.durations import format_duration, parse_duration
from braid.define.expectations import INPUT_DEFAULT, InputExpectation
from braid.define.expressions import Token, normalize, require_expression, require_per_event, tokenize
from braid.define.fingerprint import digest
from braid.define.names import FrozenMap, require_mapping, set_field, suggest
from braid.define.schema import parse_schema, quote
from braid.define.source import Source
from braid.define.view import not_comparable
from braid.errors import DefinitionError

SIDES = ("left", "right")
# State and the days that batch reads beside a day grow with it.
LONGEST = timedelta(days=366)
_EXAMPLE = "{'campaign': 'left.campaign'}"


def Join(  # a value, and called like the others
    *,
    name: str,
    left: Source,
    right: Source,
    on: str | tuple[str, ...] | Mapping[str, str],
    within: tuple[str, str],
    columns: Mapping[str, str],
    how: Literal["inner"] = "inner",
    time: Literal["left", "right"] = "right",
    lateness: str = "10 minutes",
    rules: Mapping[str, str] = FrozenMap(),
    dedup_horizon: str = "1 hour",
    expect: tuple[InputExpectation, ...] = INPUT_DEFAULT,
) -> "JoinedSource":
    """A source of pairs: events of `left` and `right` with the same `on`, whose times are `within` of each other.

    `within` is right's time minus left's, both ends included. `columns` are SQL over `left.x` and `right.y`.
    """
    return JoinedSource(
        name=name, left=left, right=right, on=on, within=within, select=columns, how=how, time=time,  # type: ignore[arg-type]
        lateness=lateness, rules=rules, dedup_horizon=dedup_horizon, expect=expect,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class JoinedSource(Derived):
    """What `Join` makes. `on` maps a column of left to one of right, `select` a column to its SQL."""

    left: Source
    right: Source
    on: Mapping[str, str]
    within: tuple[str, str]
    select: Mapping[str, str]
    how: Literal["inner"] = "inner"
    time: Literal["left", "right"] = "right"

    def __post_init__(self) -> None:
        for side in SIDES:
            self._require_source(side, getattr(self, side))
        if self.left.name == self.right.name:
            raise self._error(
                f"left and right are both {self.left.name!r}: its two positions in one log could not be told apart. "
                "Join two sources."
            )
        self._check_words()
        self._check_within()
        self._check_on()
        columns = require_mapping(self.select, f"source {self.name!r}: columns", _EXAMPLE)
        types = {column: self._type(column, sql) for column, sql in columns.items()}
        set_field(self, "select", FrozenMap(columns))
        every = {ID: "string", TIME: "timestamp"} | types
        set_field(self, "schema", ", ".join(f"{quote(column)} {kind}" for column, kind in every.items()))
        self._take_limits(self.timed)
        super().__post_init__()

    @property
    def sides(self) -> Mapping[str, Source]:
        return {side: getattr(self, side) for side in SIDES}

    @property
    def timed(self) -> Source:
        """The input that gives a pair its time."""
        return self.left if self.time == "left" else self.right

    @property
    def span(self) -> tuple[timedelta, timedelta]:
        """The least and the most that right's time is after left's."""
        return parse_duration(self.within[0]), parse_duration(self.within[1])

    @property
    def identity(self) -> str:
        return digest(
            {
                "kind": "join",
                "inputs": [[source.name, source.event_time, source.event_id] for source in self.inputs],
                "on": sorted(self.on.items()),
                "within": list(self.within),
                "time": self.time,
                "columns": {name: normalize(sql) for name, sql in self.select.items()},
                "schema": dict(self.columns),
            }
        )

    def used(self, side: str) -> tuple[str, ...]:
        """The columns of a side that a pair is made of, its time first."""
        source: Source = getattr(self, side)
        keys = self.on if side == "left" else self.on.values()
        named = (field for sql in self.select.values() for of, field in _fields(tokenize(sql)) if of == side)
        return tuple(dict.fromkeys((source.event_time, *keys, *named)))

    def _check_words(self) -> None:
        if self.how != "inner":
            raise self._error(
                f"how is {self.how!r}: only 'inner' is possible, because an event of Braid is never taken back, and an "
                "outer join says that nothing came until something does. Count each side with a view of its own, and "
                "the pairs with a view of this join."
            )
        if self.time not in SIDES:
            raise self._error(f"time is {self.time!r}: write 'left' or 'right', whose time a pair has.")

    def _check_within(self) -> None:
        within: Any = self.within
        if not isinstance(within, (tuple, list)) or len(within) != 2:
            raise self._error(
                f"within is {within!r}: write the least and the most that right's time may be after left's, such as "
                "('0 minutes', '30 minutes'). Without an end every event would be remembered for ever."
            )
        try:
            low, high = map(parse_duration, within)
        except DefinitionError as error:
            raise self._error(
                f"within: {error} It is not negative: where right comes first, make it the left one."
            ) from None
        if low > high or high > LONGEST:
            raise self._error(
                f"within is {within!r}: the first must not be longer than the second, nor the second than "
                f"{format_duration(LONGEST)}; write ('0 minutes', '30 minutes')."
            )
        set_field(self, "within", (format_duration(low), format_duration(high)))

    def _check_on(self) -> None:
        on: Any = self.on
        names = (on,) if isinstance(on, str) else on
        if isinstance(names, (tuple, list)) and names and all(isinstance(name, str) for name in names):
            names = {name: name for name in names}
        if not isinstance(names, Mapping) or not names:
            raise self._error(f"on is {on!r}: write a column that both have, such as 'ad_id', or several.")
        for mine, other in names.items():
            kinds = [self._key_type(side, name) for side, name in zip(SIDES, (mine, other), strict=True)]
            if kinds[0] != kinds[1]:
                raise self._error(
                    f"on: {mine!r} is {kinds[0]} in source {self.left.name!r}, and {other!r} is {kinds[1]} in source "
                    f"{self.right.name!r}: declare both with one type, or no two events are ever equal."
                )
        set_field(self, "on", FrozenMap(names))

    def _key_type(self, side: str, name: str) -> str:
        self._require_column_of(side, name, "on")
        kind = getattr(self, side).columns[name]
        if problem := not_comparable(name, kind):
            raise self._error(f"on: {problem.split(':')[0]}: join on another column.")
        return str(kind)

    def _type(self, column: str, sql: object) -> str:
        """Of a column that is taken as it is, its own; of anything else, what it is cast to."""
        what = f"source {self.name!r}: column {column!r}"
        if column.lower() in (ID, TIME):
            raise DefinitionError(f"{what} is what every pair has by itself: choose another name.")
        text = require_expression(sql, what)
        require_per_event(text, what)
        tokens = tokenize(text)
        self._require_sides(tokens, what, text)
        fields = _fields(tokens)
        for side, name in fields:
            self._require_column_of(side, name, f"column {column!r}")
        if len(fields) == 1 and len(tokens) == 3:
            return str(getattr(self, fields[0][0]).columns[fields[0][1]])
        if (kind := _cast_to(tokens)) is None:
            raise DefinitionError(
                f"{what} is {text!r}, and only Spark knows its type: write it as 'cast({text} as bigint)', or with "
                "the type that it has."
            )
        return parse_schema(f"x {kind}")[0].type

    def _require_column_of(self, side: str, name: str, what: str) -> None:
        known = getattr(self, side).columns
        if name not in known:
            raise self._error(
                f"{what}: source {getattr(self, side).name!r} has no column {name!r}. {suggest(name, known, 'columns')}"
            )

    def _require_sides(self, tokens: tuple[Token, ...], what: str, text: str) -> None:
        """A column without its side is the usual slip."""
        for at, token in enumerate(tokens):
            follows = tokens[at + 1].text if at + 1 < len(tokens) else ""
            after_dot = at > 0 and tokens[at - 1].text == "."
            if token.kind not in ("word", "quoted") or after_dot or follows in (".", "("):
                continue
            for side in SIDES:
                if token.name in getattr(self, side).columns:
                    raise DefinitionError(
                        f"{what} is {text!r}: say whose {token.name!r}: '{side}.{token.name}'."
                    )


def _fields(tokens: tuple[Token, ...]) -> list[tuple[str, str]]:
    """(side, column) of each `left.x` and `right.y`."""
    return [
        (tokens[at].text.lower(), tokens[at + 2].name)
        for at in range(len(tokens) - 2)
        if tokens[at].text.lower() in SIDES and tokens[at + 1].text == "."
    ]


def _cast_to(tokens: tuple[Token, ...]) -> str | None:
    """The type of what is one `cast(... as TYPE)` as a whole."""
    words = [token.text for token in tokens]
    if [word.lower() for word in words[:2]] not in (["cast", "("], ["try_cast", "("]) or words[-1] != ")":
        return None
    depth, at = 0, None
    for place, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and 1 < place < len(words) - 1:
            return None
        if depth == 1 and word.lower() == "as":
            at = place
    return re.sub(r"\s*([(),<>:])\s*", r"\1", " ".join(words[at + 1 : -1])) if at is not None else None
