"""Turns the texts of a question (times, keys, grain, order) into a request that is checked against its view."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from braid.define.names import FrozenMap, suggest
from braid.define.view import View
from braid.define.windows import (
    DAY,
    AllTime,
    Fixed,
    Session,
    Window,
)
from braid.errors import BraidError
from braid.states.calendar import needs_no_zone
from serving_layer.answer.scope import Scope, Wanted, parse_moment

# A hundred years: beyond it, times at the edge of the calendar could not be told.
LONGEST = timedelta(days=36_525)
_EQUAL = re.compile(r"(?P<key>[^=\s]+)\s*=(?P<value>.*)", re.DOTALL)
_MISSING = re.compile(r"(?P<key>\S+)\s+is\s+null", re.IGNORECASE)


class RequestError(BraidError):
    """A question that cannot be asked like this, and the parameter that is wrong with it."""

    def __init__(self, message: str, parameter: str) -> None:
        super().__init__(message)
        self.parameter = parameter


@dataclass(frozen=True)
class Request:
    """Windows that begin in [start, end), of the keys that are wanted, in an order, a page of them.

    `group` are the keys that rows are told apart by, where those are not all: over the others numbers are merged.
    """

    start: datetime | None = None
    end: datetime | None = None
    where: Mapping[str, Wanted] = field(default_factory=FrozenMap)
    grain: str | None = None
    order: tuple[tuple[str, str], ...] = ()
    limit: int | None = None
    offset: int = 0
    group: tuple[str, ...] | None = None

    def keys(self, view: View) -> tuple[str, ...]:
        return view.keys if self.group is None else self.group


@dataclass(frozen=True)
class Ranking:
    """The rows with the largest numbers: of each window, or of the range as a whole."""

    by: str
    n: int
    per: Literal["window", "range"]


def parse_request(
    view: View,
    *,
    start: str | None = None,
    end: str | None = None,
    where: Sequence[str] = (),
    group: str | None = None,
    grain: str | None = None,
    order: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> Request:
    """The request that these texts make; what is wrong with one is said, with what there is instead."""
    zone = view.source.zone
    with naming("grain"):
        window = _window(view, grain)
    with naming("start"):
        since = None if start is None else parse_moment(start, zone, "start")
    with naming("end"):
        until = None if end is None else parse_moment(end, zone, "end")
    if isinstance(window, AllTime) and (start or end):
        raise RequestError(
            f"view {view.name!r} has one window for all time, which has no start to choose by: leave start and end "
            "out, or read it with a grain, such as '1 day'.",
            "start" if start else "end",
        )
    if since and until and until <= since:
        raise RequestError(f"end {end!r} is not after start {start!r}: nothing begins between them.", "end")
    if (limit is not None and limit < 0) or offset < 0:
        raise RequestError(
            f"limit {limit} and offset {offset} count rows: use 0 or more.",
            "offset" if offset < 0 else "limit",
        )
    with naming("where"):
        chosen = FrozenMap(_parse_where(view, where))
    with naming("group"):
        kept = None if group is None else _parse_group(view, group)
    with naming("order"):
        keys = view.keys if kept is None else kept
        by = _parse_order(columns_of(view, window, kept), keys, order)
    return Request(since, until, chosen, grain, by, limit, offset, kept)


def parse_ranking(view: View, by: str, n: int, per: str) -> Ranking:
    if by not in view.measures:
        raise RequestError(
            f"by {by!r}: view {view.name!r} has no such measure. {suggest(by, view.measures, 'measures')}",
            "by",
        )
    if n < 1:
        raise RequestError(f"n {n} is how many rows are wanted: use 1 or more.", "n")
    if per not in ("window", "range"):
        raise RequestError(
            f"per {per!r} is neither 'window' (the largest of each window) nor 'range' (of the whole range).",
            "per",
        )
    return Ranking(by, n, "window" if per == "window" else "range")


@contextmanager
def naming(parameter: str) -> Iterator[None]:
    """What is wrong in here is wrong with this parameter."""
    try:
        yield
    except RequestError:
        raise
    except BraidError as error:
        raise RequestError(str(error), parameter) from None


def scope_of(view: View, request: Request) -> Scope:
    """The rows that the windows of a request are made of.

    A window that begins in [start, end) has no pane before it, and its last one begins before its end; local time
    makes a window up to some hours longer than its size, where it has a say. Sessions may reach any number of days in
    both directions: of them all times are needed.
    """
    window = view.window.read_as(request.grain)
    if not isinstance(window, Fixed):
        return Scope(keys=request.where)
    reach = window.size - window.every + (timedelta(0) if needs_no_zone(window.every) else window.every + DAY)
    until = None if request.end is None else request.end + reach
    return Scope(request.start, until, request.where)


def range_of(view: View, request: Request) -> Scope:
    """The rows that begin in the range of a request; of sessions that is known only when they are whole."""
    if isinstance(view.window, Session):
        return Scope(keys=request.where)
    return Scope(request.start, request.end, request.where)


def columns_of(view: View, window: object, group: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """What an answer's rows are made of and can be ordered by."""
    bounds = () if isinstance(window, AllTime) else ("window_start", "window_end")
    return (*(view.keys if group is None else group), *bounds, *view.measures)


def _window(view: View, grain: str | None) -> Window:
    with suppress(OverflowError):
        window = view.window.read_as(grain)
        if not isinstance(window, Fixed) or window.size <= LONGEST:
            return window
    raise BraidError(f"grain {grain!r} is longer than {LONGEST.days} days, the longest that a window can be.")


def _parse_group(view: View, text: str) -> tuple[str, ...]:
    """ "url,status" -> the keys that are kept, in the view's order; an empty text keeps none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in view.keys:
            raise BraidError(
                f"group {text!r}: {name!r} is not a key of view {view.name!r}. {suggest(name, view.keys, 'keys')}"
            )
    if isinstance(view.window, Session) and set(names) != set(view.keys):
        raise BraidError(
            f"group {text!r}: a session is what the events of one {', '.join(view.keys)} make, and cannot be told "
            "without it. Leave group out."
        )
    return tuple(key for key in view.keys if key in names)


def _parse_where(view: View, texts: Sequence[str]) -> dict[str, Wanted]:
    """Several values of one key are alternatives."""
    found: dict[str, Wanted] = {}
    for text in texts:
        match = _MISSING.fullmatch(text.strip()) or _EQUAL.fullmatch(text)
        if match is None:
            raise BraidError(
                f"where {text!r} is not understood: write KEY=VALUE, or 'KEY is null' for events that have no value. "
                f"{suggest(text, view.keys, 'keys')}"
            )
        key, value = match["key"], match.groupdict().get("value")
        if key not in view.keys:
            raise BraidError(
                f"where {text!r}: {key!r} is not a key of view {view.name!r}. {suggest(key, view.keys, 'keys')}"
            )
        found[key] = (*found.get(key, ()), value)
    return found


def _parse_order(
    columns: Sequence[str], keys: Sequence[str], text: str | None
) -> tuple[tuple[str, str], ...]:
    """ "-hits,url" -> by hits, largest first, then by url. What is left equal is ordered by window and keys."""
    chosen = []
    for part in (text or "").replace(" ", "").split(","):
        name = part.lstrip("-")
        if name and name not in columns:
            raise BraidError(
                f"order {text!r}: there is no column {name!r}. {suggest(name, columns, 'columns')}"
            )
        if name:
            chosen.append((name, "descending" if part.startswith("-") else "ascending"))
    names = [name for name, _ in chosen]
    rest = [name for name in ("window_start", *keys, "window_end") if name in columns and name not in names]
    return (*chosen, *((name, "ascending") for name in rest))
