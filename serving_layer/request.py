"""What a reader asks of a view: checked against the view, and a value from there on."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from braid.errors import BraidError
from braid.names import FrozenMap, suggest
from braid.view import View
from braid.windows import DAY, AllTime, Fixed
from serving_layer.scope import Scope, Wanted, parse_moment

_EQUAL = re.compile(r"(?P<key>[^=\s]+)\s*=(?P<value>.*)", re.DOTALL)
_MISSING = re.compile(r"(?P<key>\S+)\s+is\s+null", re.IGNORECASE)


@dataclass(frozen=True)
class Request:
    """Windows that begin in [start, end), of the keys that are wanted, in an order, a page of them."""

    start: datetime | None = None
    end: datetime | None = None
    where: Mapping[str, Wanted] = field(default_factory=FrozenMap)
    grain: str | None = None
    order: tuple[tuple[str, str], ...] = ()
    limit: int | None = None
    offset: int = 0


def parse_request(
    view: View,
    *,
    start: str | None = None,
    end: str | None = None,
    where: Sequence[str] = (),
    grain: str | None = None,
    order: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> Request:
    """The request that these texts make; what is wrong with one is said, with what there is instead."""
    zone = view.source.zone
    window = view.window.read_as(grain)
    since = None if start is None else parse_moment(start, zone, "start")
    until = None if end is None else parse_moment(end, zone, "end")
    if isinstance(window, AllTime) and (start or end):
        raise BraidError(
            f"view {view.name!r} has one window for all time, which has no start to choose by: leave start and end "
            "out, or read it with a grain, such as '1 day'."
        )
    if since and until and until <= since:
        raise BraidError(f"end {end!r} is not after start {start!r}: nothing begins between them.")
    if (limit is not None and limit < 0) or offset < 0:
        raise BraidError(f"limit {limit} and offset {offset} count rows: use 0 or more.")
    return Request(
        since, until, FrozenMap(_parse_where(view, where)), grain, _parse_order(view, order, window), limit, offset
    )  # fmt: skip


def scope_of(view: View, request: Request) -> Scope:
    """The rows that the windows of a request are made of.

    A window that begins in [start, end) has no pane before it, and its last one begins before its end; local time
    makes a window up to some hours longer than its size. Sessions may reach any number of days in both directions:
    of them all times are needed.
    """
    window = view.window.read_as(request.grain)
    if not isinstance(window, Fixed):
        return Scope(keys=request.where)
    until = None if request.end is None else request.end + window.size + DAY
    return Scope(request.start, until, request.where)


def columns_of(view: View, window: object) -> tuple[str, ...]:
    """What an answer's rows are made of and can be ordered by."""
    bounds = () if isinstance(window, AllTime) else ("window_start", "window_end")
    return (*view.keys, *bounds, *view.measures)


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


def _parse_order(view: View, text: str | None, window: object) -> tuple[tuple[str, str], ...]:
    """ "-hits,url" -> by hits, largest first, then by url. What is left equal is ordered by window and keys."""
    columns = columns_of(view, window)
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
    rest = [
        name for name in ("window_start", *view.keys, "window_end") if name in columns and name not in names
    ]
    return (*chosen, *((name, "ascending") for name in rest))
