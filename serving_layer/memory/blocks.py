"""Rows of states in memory: packed, ordered by time, and kept as long as there is room for them."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.states.arrow import INSTANT, one_array
from braid.tables.delta_rs import Pinned

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
# The columns that a block's rows are ordered by: the pane, or the first event of a partial session.
TIMES = ("pane", "first")


class Block:
    """Rows of states that do not change. Only the rows that a question needs are turned back into what they were."""

    def __init__(self, rows: pa.Table) -> None:
        self.schema = rows.schema
        self._time = next(name for name in TIMES if name in rows.column_names)
        ordered = rows.sort_by(self._time)
        self._columns = {name: _smallest(one_array(ordered[name])) for name in rows.column_names}
        # A day without events is a row without a time; those are last in the order.
        self._timed = len(rows) - ordered[self._time].null_count
        self._times, self._places = _runs(one_array(ordered[self._time]).slice(0, self._timed))
        self.nbytes = sum(column.nbytes for column in self._columns.values()) + self._times.nbytes

    def __len__(self) -> int:
        return len(self._columns[self._time])

    def states(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        keys: Mapping[str, pa.Array] | None = None,
    ) -> pa.Table:
        """Rows whose time is in [since, until) and whose keys have one of the values; null among them is no value."""
        low, high = self._slice(since, until)
        chosen = None
        for key, wanted in (keys or {}).items():
            fitting = _fitting(self._columns[key].slice(low, high - low), wanted)
            chosen = fitting if chosen is None else chosen & fitting
        at = None if chosen is None else pa.array(np.flatnonzero(chosen) + low)
        return pa.table([self._rows(name, low, high, at) for name in self.schema.names], schema=self.schema)

    def count(self, since: datetime | None = None, until: datetime | None = None) -> int:
        """How many rows that is, whatever their keys, without looking at them."""
        low, high = self._slice(since, until)
        return high - low

    def values(self, name: str) -> list[Any]:
        """The values that occur in a column."""
        column = self._columns[name]
        found = column.dictionary if pa.types.is_dictionary(column.type) else column.unique()
        return [value for value in found.to_pylist() if value is not None]

    def _slice(self, since: datetime | None, until: datetime | None) -> tuple[int, int]:
        if since is None and until is None:
            return 0, len(self)
        low = 0 if since is None else int(np.searchsorted(self._times, _micros(since)))
        high = len(self._times) if until is None else int(np.searchsorted(self._times, _micros(until)))
        places = self._places
        return (places[low], max(places[low], places[high])) if len(self._times) else (0, 0)

    def _rows(self, name: str, low: int, high: int, at: pa.Array | None) -> pa.Array:
        column, kind = self._columns[name], self.schema.field(name).type
        part = column.slice(low, high - low) if at is None else column.take(at)
        if pa.types.is_dictionary(part.type):
            part = part.dictionary_decode()
        return part if part.type == kind else part.cast(kind)


class BlockCache:
    """The blocks that were used last, by name, up to a number of bytes.

    A name says all about a block's content: it is never changed, only left out and read again.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        # Bytes that are held elsewhere and cannot be given up: the tails.
        self.reserved = 0
        # What the tail of one view may take before its old part is left in its table.
        self.tail_share = most_bytes // 2
        self._blocks: OrderedDict[Hashable, Block] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[Hashable, threading.Lock] = {}

    def block(self, name: Hashable, load: Callable[[], Block]) -> Block:
        """The block of this name, which is loaded by one of those who ask for it at the same time."""
        if (found := self.find(name)) is not None:
            return found
        with self._lock:
            turn = self._loading.setdefault(name, threading.Lock())
        try:
            with turn:
                if (found := self.find(name)) is not None:
                    return found
                loaded = load()
                self._keep(name, loaded)
                return loaded
        finally:
            with self._lock:
                self._loading.pop(name, None)

    def find(self, name: Hashable) -> Block | None:
        with self._lock:
            if name in self._blocks:
                self._blocks.move_to_end(name)
            return self._blocks.get(name)

    def has_room_for(self, more: int) -> bool:
        """Whether a block of so many bytes would drive no other out."""
        return self.bytes + self.reserved + more <= self.most_bytes

    def _keep(self, name: Hashable, block: Block) -> None:
        with self._lock:
            if name in self._blocks:
                return
            self._blocks[name] = block
            self.bytes += block.nbytes
            while self._blocks and self.bytes + self.reserved > self.most_bytes:
                _, oldest = self._blocks.popitem(last=False)
                self.bytes -= oldest.nbytes


def _smallest(column: pa.Array) -> pa.Array:
    """The same values in less memory, where that is possible without loss."""
    kind = column.type
    if pa.types.is_decimal(kind) and kind.scale == 0:
        whole = _as_integers(column)
        return column if whole is None else _narrow(whole)
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return _narrow(column.cast(pa.int64()))
    if pa.types.is_string(kind) or pa.types.is_temporal(kind):
        coded = column.dictionary_encode()
        # Codes for values that hardly repeat would only come on top of the values.
        if len(coded.dictionary) * 2 <= len(column):
            return pa.DictionaryArray.from_arrays(_narrow(coded.indices.cast(pa.int64())), coded.dictionary)
    return column


def _as_integers(column: pa.Array) -> pa.Array | None:
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _narrow(column: pa.Array) -> pa.Array:
    bounds = pc.min_max(column).as_py()
    low, high = bounds["min"] or 0, bounds["max"] or 0
    for kind in INTEGERS:
        if -(1 << kind.bit_width - 1) <= low and high < 1 << kind.bit_width - 1:
            return column.cast(kind)
    return column


def _runs(times: pa.Array) -> tuple[Any, list[int]]:
    """The times that occur, in order, and where the rows of each begin; one place more for the end."""
    numbers = times.cast(INSTANT).cast(pa.int64()).to_numpy()
    found, begins = np.unique(numbers, return_index=True)
    return found, [*begins.tolist(), len(numbers)]


def _fitting(column: pa.Array, wanted: pa.Array) -> Any:
    """Which rows have one of the values."""
    if not pa.types.is_dictionary(column.type):
        return _is_in(column, wanted)
    codes = pc.index_in(wanted.drop_null(), column.dictionary).drop_null().to_pylist()
    indices = column.indices
    numbers = indices.fill_null(-1).to_numpy() if indices.null_count else indices.to_numpy()
    codes += [-1] if wanted.null_count else []
    if len(codes) == 1:
        return numbers == codes[0]
    return np.isin(numbers, np.array(codes, numbers.dtype))


def _is_in(column: pa.Array, wanted: pa.Array) -> Any:
    """An integer that was narrowed is compared as the number that it is: the wanted one may be larger than its type."""
    whole = pa.types.is_integer(column.type)
    kind = pa.int64() if whole else column.type
    return pc.is_in(column.cast(kind), wanted.cast(kind)).to_numpy(zero_copy_only=False)


def _micros(moment: datetime) -> int:
    return int(pa.scalar(moment, INSTANT).value)


def files_of(base: Pinned) -> dict[date, tuple[str, ...]]:
    by_day: dict[date, list[str]] = {}
    for file, day in base.files_by_day().items():
        by_day.setdefault(day, []).append(file)
    return {day: tuple(sorted(files)) for day, files in by_day.items()}


def rows_by_day(base: Pinned, days: Iterable[date]) -> dict[date, int]:
    """From the files' own footers: no row is read."""
    found: dict[date, int] = {}
    wanted = pc.field("day").isin(pa.array(list(days), pa.date32()))
    for day, part in base.parts(wanted):
        found[day] = found.get(day, 0) + part.count_rows()
    return found
