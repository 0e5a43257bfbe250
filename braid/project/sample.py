"""A sample of events: the first lines of a file."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from braid.errors import BraidError
from braid.produce.files import csv_rows, default_delimiter, jsonl_rows

MOST = 1_000
_CSV = (".csv", ".tsv", ".tab")


@dataclass(frozen=True)
class Sample:
    """Events as they were decoded, and their lines as they were written."""

    events: tuple[dict[str, Any], ...]
    lines: tuple[bytes, ...]
    header: bytes | None = None
    delimiter: str | None = None

    @property
    def is_csv(self) -> bool:
        return self.delimiter is not None


def from_file(path: Path) -> Sample:
    if path.suffix == ".gz":
        raise BraidError(f"{path} is packed, and a source reads files as they are: unpack it first.")
    if path.name.endswith(_CSV):
        delimiter = default_delimiter(path)
        rows = [row for row in islice(csv_rows(path, delimiter), MOST) if row.fields is not None]
        header = delimiter.join(rows[0].fields or ()).encode() if rows else b""
        found = tuple(dict(row.fields or {}) for row in rows)
        return Sample(found, tuple(row.raw for row in rows), header, delimiter)
    rows = [row for row in islice(jsonl_rows(path), MOST) if row.raw.strip()]
    good = tuple(dict(row.fields) for row in rows if row.fields is not None)
    if not good:
        raise BraidError(
            f"{path} has no line that is one JSON object, and it is no .csv file: give one of the two."
        )
    return Sample(good, tuple(row.raw for row in rows))
