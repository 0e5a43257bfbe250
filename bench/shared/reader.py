"""Who reads a table while it is written, and notes when each probe is first seen."""

import time
from dataclasses import dataclass, field
from typing import Any

from bench.shared.load import PROBE


@dataclass
class Reader:
    """Follows a Delta table as a reader would, and notes when it first sees each probe."""

    table: str
    found: dict[str, float] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    _delta: Any = None

    @property
    def version(self) -> int:
        return self._delta.version() if self._delta is not None else -1

    def look(self) -> None:
        if not self._open():
            return
        files = set(self._delta.file_uris())
        for file in files - self.known:
            for url in _probes_in(file):
                self.found.setdefault(url, time.time())
        self.known |= files

    def _open(self) -> bool:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            if self._delta is None:
                self._delta = DeltaTable(self.table)
            self._delta.update_incremental()
        except TableNotFoundError:
            return False
        return True


def _probes_in(file: str) -> list[str]:
    import pyarrow.parquet as pq

    urls = pq.ParquetFile(file.removeprefix("file://")).read(columns=["url"])["url"].to_pylist()
    return [url for url in urls if url and url.startswith(PROBE)]
