"""Reads files that are replayed: their lines, their rows, and texts as JSON values.

Nothing is dropped, whatever a line looks like.
"""

import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BufferedIOBase, TextIOWrapper
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from braid.define.schema import FLOATS, INTEGERS, is_decimal
from braid.errors import BraidError

UNREADABLE_LINE = "unreadable line"

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_INTEGER = re.compile(r"-?(0|[1-9]\d*)")
_EPOCH = re.compile(r"\d{9,10}|\d{12,13}")
_MILLIS_DIGITS = 12


class FileRow(NamedTuple):
    """A row with the number of its first line; `fields` is None where the line could not be read as one."""

    line: int
    fields: dict[str, Any] | None
    raw: bytes


def require_file(path: Path) -> None:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        raise BraidError(f"{path} {what}: name a file that can be read.")


@contextmanager
def opened(path: Path) -> Iterator[BufferedIOBase]:
    """The bytes of a file, unpacked when its name ends in .gz; what cannot be read is named."""
    require_file(path)
    try:
        with path.open("rb") as packed:
            yield cast(BufferedIOBase, gzip.GzipFile(fileobj=packed) if path.suffix == ".gz" else packed)
    except (OSError, EOFError, zlib.error) as error:
        raise BraidError(f"{path} cannot be read to its end: {error}. Is it complete?") from None


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line without its end, counted from 1."""
    with opened(path) as data:
        for number, line in enumerate(data, 1):
            yield number, line.removesuffix(b"\n").removesuffix(b"\r")


def default_delimiter(path: Path) -> str:
    return "\t" if path.name.removesuffix(".gz").endswith((".tsv", ".tab")) else ","


def jsonl_rows(path: Path) -> Iterator[FileRow]:
    for number, line in numbered_lines(path):
        try:
            # Decoded here: left to itself, the parser would also take UTF-16.
            value = json.loads(line.decode())
        except (ValueError, RecursionError):
            value = None
        yield FileRow(number, value if isinstance(value, dict) else None, line)


def csv_columns(path: Path, delimiter: str) -> list[str]:
    """The header, which must name each column once."""
    with _csv_reader(path, delimiter) as (reader, _):
        header: list[str] = next(reader, [])
    if not header or "" in header or len(set(header)) < len(header) or _has_strange_bytes(header):
        raise BraidError(
            f"{path} must begin with a header that names each column once, and it begins with {header!r}. "
            "Is --delimiter right?"
        )
    return header


def csv_rows(path: Path, delimiter: str) -> Iterator[FileRow]:
    """The rows after the header, with their cells as texts; one with other columns than the header is not read."""
    with _csv_reader(path, delimiter) as (reader, lines):
        header: list[str] = next(reader, [])
        while True:
            lines.clear()
            first = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise BraidError(
                    f"{path}, line {first}: {error}. Is a quote left open, or is --delimiter not {delimiter!r}?"
                ) from None
            raw = "".join(lines).encode("utf-8", "surrogateescape").rstrip(b"\r\n")
            fits = len(cells) == len(header) and not _has_strange_bytes(cells)
            yield FileRow(first, dict(zip(header, cells, strict=True)) if fits else None, raw)


@contextmanager
def _csv_reader(path: Path, delimiter: str) -> Iterator[tuple[Any, list[str]]]:
    """A reader, and the lines that it has taken since the list was cleared."""
    taken: list[str] = []

    def tapped(text: TextIOWrapper) -> Iterator[str]:
        for line in text:
            taken.append(line)
            yield line

    # Tab-separated values have no quoting by convention: a quote in them is a character.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    with opened(path) as data:
        text = TextIOWrapper(cast(Any, data), encoding="utf-8-sig", errors="surrogateescape", newline="")
        yield csv.reader(tapped(text), delimiter=delimiter, quoting=quoting), taken


def _has_strange_bytes(cells: list[str]) -> bool:
    """Whether bytes that are not UTF-8 were read: they are kept as surrogates, which no text has."""
    return any("\udc80" <= sign <= "\udcff" for cell in cells if not cell.isascii() for sign in cell)


class Raw(str):
    """JSON text that is kept as it was written: 1.10 stays 1.10, and no digit of a decimal is lost."""

    __slots__ = ()


def literal(text: str, type_name: str | None) -> str | Raw | None:
    """A cell as a JSON value. What does not fit its type stays a text, so that ingest refuses it with the reason."""
    if text == "":
        return None
    if type_name is None:
        return Raw(text) if _NUMBER.fullmatch(text) else text
    if type_name in INTEGERS:
        return Raw(text) if _INTEGER.fullmatch(text) else text
    if type_name in FLOATS or is_decimal(type_name):
        return Raw(text) if _NUMBER.fullmatch(text) else text
    if type_name == "boolean":
        return Raw(text.lower()) if text.lower() in ("true", "false") else text
    return text


def iso_time(text: str) -> str:
    """Epoch seconds or milliseconds as ISO-8601 in UTC; anything else as it is."""
    if not _EPOCH.fullmatch(text):
        return text
    moment = datetime.fromtimestamp(int(text) / (1000 if len(text) >= _MILLIS_DIGITS else 1), UTC)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace(
        "+00:00", "Z"
    )


def to_json(fields: dict[str, Any]) -> str:
    """One line of ASCII, in the order of the fields: whatever a text holds, it can be encoded."""
    return "{" + ",".join(f"{_text(name)}:{_text(value)}" for name, value in fields.items()) + "}"


def decode(data: bytes) -> str:
    """UTF-8 where it is that; otherwise Latin-1, in which every byte is a character."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _text(value: Any) -> str:
    return value if isinstance(value, Raw) else json.dumps(value)
