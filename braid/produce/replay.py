"""Replays a CSV or JSON Lines file as records, in the order of the file or of a column that says when they came."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from braid.define.names import FrozenMap, suggest
from braid.define.source import Source
from braid.errors import BraidError
from braid.produce.files import (
    UNREADABLE_LINE,
    FileRow,
    csv_columns,
    csv_rows,
    default_delimiter,
    iso_time,
    jsonl_rows,
    literal,
    require_file,
    to_json,
)
from braid.produce.record import EVENT, UNPARSABLE, Record, expected


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Which file, and how its rows become events. `renames` maps a new name to the column's name in the file."""

    path: Path
    format: Literal["csv", "jsonl"]
    source: Source | None = None
    arrival: str | None = None
    id_column: str | None = None
    renames: Mapping[str, str] = field(default_factory=FrozenMap)
    delimiter: str | None = None

    @property
    def separator(self) -> str:
        return self.delimiter or default_delimiter(self.path)

    @property
    def id_field(self) -> str | None:
        """Where the event's id goes; None where the source has none."""
        return self.source.event_id if self.source else "id"


def replay(options: Replay, now: datetime) -> Iterator[Record]:
    """Every row of the file as a record; a row that cannot be read is sent as it is, for the quarantine."""
    require_file(options.path)
    _check_columns(options)
    rows = _rows(options)
    if options.arrival is not None:
        rows = iter(in_order_of(options.arrival, rows))
    encode = _csv_fields if options.format == "csv" else _json_fields
    return (_record(row, options, encode, now) for row in rows)


def in_order_of(column: str, rows: Iterable[FileRow]) -> list[FileRow]:
    """Sorted by a column of numbers, times or texts; rows without it come last, equal ones stay as they are."""
    found = list(rows)
    values = [(row.fields or {}).get(column) for row in found]
    present = [value for value in values if value not in (None, "")]
    key = next(parse for parse in (float, _timestamp, str) if _all_parse(parse, present))
    return [
        row
        for _, row in sorted(zip(values, found, strict=True), key=lambda pair: _last_if_absent(pair[0], key))
    ]


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


def _record(
    row: FileRow, options: Replay, encode: Callable[[dict[str, Any], Replay], dict[str, Any]], now: datetime
) -> Record:
    place = f"{options.path.name}:{row.line}"
    if row.fields is None:
        return Record(place.encode(), row.raw, UNREADABLE_LINE, None, UNPARSABLE)
    fields = encode(row.fields, options)
    id_field = options.id_field
    if options.id_column is not None and id_field is not None:
        fields[id_field] = row.fields.get(options.id_column)
    elif id_field is not None and id_field not in fields:
        fields = {id_field: place, **fields}
    written = fields.get(id_field) if id_field is not None else None
    event_id = place if written is None else str(written)
    unchanged = options.format == "jsonl" and fields == row.fields
    value = row.raw if unchanged else to_json(fields).encode()
    event, reason = expected(fields, event_id, options.source, now)
    return Record(event_id.encode("utf-8", "replace"), value, EVENT if event else str(reason), event, reason)


def _csv_fields(cells: dict[str, str], options: Replay) -> dict[str, Any]:
    types = options.source.columns if options.source else {}
    names = {old: new for new, old in options.renames.items()}
    named = ((names.get(column, column), cell) for column, cell in cells.items())
    return {name: _cell(cell, types.get(name), options.source, name) for name, cell in named}


def _cell(cell: str, type_name: str | None, source: Source | None, name: str) -> Any:
    if type_name != "timestamp" or source is None:
        return literal(cell, type_name)
    time_format = source.time_format if name == source.event_time else None
    # A source that reads ISO-8601 gets it, also from a file that counts seconds.
    return literal(iso_time(cell), "string") if time_format is None else literal(cell, None)


def _json_fields(fields: dict[str, Any], options: Replay) -> dict[str, Any]:
    names = {old: new for new, old in options.renames.items()}
    return {names.get(name, name): value for name, value in fields.items()}


def _rows(options: Replay) -> Iterator[FileRow]:
    return csv_rows(options.path, options.separator) if options.format == "csv" else jsonl_rows(options.path)


def _check_columns(options: Replay) -> None:
    """Before anything is sent: a column that is not there would only be missed later."""
    if options.format == "csv":
        columns = csv_columns(options.path, options.separator)
    elif options.arrival or options.id_column or options.renames:
        columns = list(dict.fromkeys(name for row in jsonl_rows(options.path) for name in row.fields or ()))
    else:
        return
    wanted = [("--arrival", options.arrival), ("--id", options.id_column)]
    wanted += [("--map", old) for old in options.renames.values()]
    for option, column in wanted:
        if column is not None and column not in columns:
            raise BraidError(
                f"{option} {column!r} is not a column of {options.path.name}. {suggest(column, columns, 'columns')}"
            )
    for new in options.renames:
        if new in columns and new not in options.renames.values():
            raise BraidError(
                f"--map {new}={options.renames[new]}: {options.path.name} has a column {new!r} already."
            )


def _timestamp(text: Any) -> float:
    moment = datetime.fromisoformat(str(text))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _all_parse(parse: Callable[[Any], Any], values: list[Any]) -> bool:
    try:
        for value in values:
            parse(value)
    except (ValueError, TypeError):
        return False
    return True


def _last_if_absent(value: Any, key: Callable[[Any], Any]) -> tuple[bool, Any]:
    absent = value in (None, "")
    return absent, 0 if absent else key(value)
