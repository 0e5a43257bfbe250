"""The lines of a source's files with their places, as ingest sees them, without Spark; what is not sure is doubtful."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from braid.define.source import Source
from braid.log.database import Place
from braid.log.table import Log
from braid.runtime import documents
from speed_layer.ingest.origin import folder_of
from speed_layer.ledger.plain_records import PLAIN_FORMATS, DoubtfulError

# What is noted beside a log whose folder may have been moved.
RECORD = "_braid_folder.json"
MARK = b"\xef\xbb\xbf"
AT_ONCE = 50_000
# Spark's seed for it, and the primes of xxHash64.
SEED, WORD = 42, (1 << 64) - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


class SourceFile:
    """A file of a source: its number, and its records with their lines."""

    def __init__(self, source: Source, path: Path, first: str) -> None:
        self._source, self._path = source, path
        self.number = xxhash64(f"file:{first}/{path.name}".encode()) & ((1 << 63) - 1)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Blank lines are no records, and neither is a header."""
        with self._path.open("rb") as file:
            for number, line in enumerate(file):
                text = line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
                text = text.removeprefix(MARK) if number == 0 else text
                if text.strip(b" ") and not (number == 0 and self._names(text) == self._columns()):
                    yield number, text

    def has_another_header(self) -> bool:
        """Whether ingest refuses it whole."""
        if self._source.format != "csv":
            return False
        with self._path.open("rb") as file:
            names = self._names(file.readline().removesuffix(b"\n").removesuffix(b"\r").removeprefix(MARK))
        return names != self._columns() and bool(set(names) & set(self._columns()))

    def _columns(self) -> list[str]:
        return [name.lower() for name in self._source.columns] if self._source.format == "csv" else []

    def _names(self, line: bytes) -> list[str]:
        cells = line.decode(errors="replace").split(self._source.delimiter)
        return [cell.strip(" ").removeprefix('"').removesuffix('"').lower() for cell in cells]


def listed(log: Log) -> dict[int, SourceFile]:
    """Number -> file, of a plain folder on this machine with a plain pattern."""
    source = log.source
    folder, pattern = folder_of(log)
    if "://" in folder or set(pattern) & set("[]{}\\^") or source.format not in PLAIN_FORMATS:
        raise DoubtfulError
    # Where it was moved, its files are numbered as they were in the folder that was read first.
    record = json.loads(documents.read(f"{log.table}/{RECORD}") or "{}")
    first = record["first"] if record.get("now") == folder else folder
    found = {}
    for path in sorted(Path(folder).iterdir()):
        if (
            path.is_dir()
            or path.suffix == ".gz"
            or ":" in path.name
            or (path.name.startswith("_") and fnmatchcase(path.name, pattern))
        ):
            raise DoubtfulError
        if (
            fnmatchcase(path.name, pattern)
            and not path.name.startswith(".")
            and not path.name.endswith("._COPYING_")
        ):
            file = SourceFile(source, path, first)
            found[file.number] = file
    return found


def places(there: Mapping[int, SourceFile], counted: dict[int, int]) -> Iterator[tuple[int, list[int]]]:
    """The lines of all files, some at a time; how many each file has is counted along the way."""
    for number, file in there.items():
        numbers = (line for line, _ in file.lines())
        while some := list(islice(numbers, AT_ONCE)):
            counted[number] = counted.get(number, 0) + len(some)
            yield number, some


def lines_at(there: Mapping[int, SourceFile], wanted: Iterable[Place]) -> Iterator[tuple[Place, bytes]]:
    """The records at these places."""
    by_file = defaultdict(set)
    for number, line in wanted:
        by_file[number].add(line)
    for number, lines in by_file.items():
        if there[number].has_another_header():
            raise DoubtfulError
        yield from (((number, line), text) for line, text in there[number].lines() if line in lines)


def xxhash64(data: bytes) -> int:
    """As Spark hashes a text: its paths are few and short, so that Python does."""
    at, end = 0, len(data)
    if end >= 32:
        lanes = [(SEED + P1 + P2) & WORD, (SEED + P2) & WORD, SEED, (SEED - P1) & WORD]
        while at + 32 <= end:
            lanes = [_round(lane, _word(data, at + 8 * n)) for n, lane in enumerate(lanes)]
            at += 32
        found = sum(_turn(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & WORD
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * P1 + P4) & WORD
    else:
        found = (SEED + P5) & WORD
    found = (found + end) & WORD
    while at + 8 <= end:
        found = (_turn(found ^ _round(0, _word(data, at)), 27) * P1 + P4) & WORD
        at += 8
    if at + 4 <= end:
        found = (
            _turn(found ^ (int.from_bytes(data[at : at + 4], "little") * P1 & WORD), 23) * P2 + P3
        ) & WORD
        at += 4
    for byte in data[at:]:
        found = _turn(found ^ (byte * P5 & WORD), 11) * P1 & WORD
    found = (found ^ found >> 33) * P2 & WORD
    found = (found ^ found >> 29) * P3 & WORD
    return found ^ found >> 32


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _turn(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & WORD


def _round(lane: int, word: int) -> int:
    return _turn((lane + word * P2) & WORD, 31) * P1 & WORD
