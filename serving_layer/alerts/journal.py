"""The table of alerts: what was fired, resolved and corrected, in the order in which it happened."""

import json
import threading
from collections import Counter, deque
from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from braid.runtime import documents
from braid.runtime.object_store import delta_address, delta_options
from braid.runtime.settings import Settings
from braid.states.arrow import INSTANT
from braid.tables.delta_rs import open_table

JOURNAL = pa.schema(
    {
        "alert": pa.string(), "number": pa.int64(), "id": pa.string(), "change": pa.string(), "fires": pa.bool_(),
        "reason": pa.string(), "severity": pa.string(), "view": pa.string(), "version": pa.int32(),
        "keys": pa.string(), "window_start": INSTANT, "window_end": INSTANT, "status": pa.string(),
        "numbers": pa.string(), "epoch": INSTANT, "complete": INSTANT, "final_until": INSTANT,
        "tail_version": pa.int64(), "base_version": pa.int64(), "at": INSTANT, "quiet": pa.bool_(),
    }
)  # fmt: skip
# Threads of one process write to one table: each waits for its turn, so that none has to try again.
_TURN = threading.Lock()
COMPACT_EVERY = 100


class _News:
    """What this process has appended, and how often for each alert: who has read since need not read the table."""

    counts: ClassVar[Counter[tuple[str, str]]] = Counter()
    recent: ClassVar[deque[tuple[str, dict[str, Any]]]] = deque(maxlen=10_000)


def place(settings: Settings) -> str:
    return settings.location("alerts", "journal")


def news(settings: Settings, alert: str) -> int:
    """Another number whenever this process has written something about the alert."""
    return _News.counts[settings.home, alert]


def append(settings: Settings, entries: list[dict[str, Any]]) -> None:
    """All of them in one commit. Every so often what was written is put together: a file a commit would be many."""
    if not entries:
        return
    if settings.home_is_local:
        documents.make_folder(place(settings))
    with _TURN:
        write_deltalake(
            delta_address(place(settings)), pa.Table.from_pylist(entries, JOURNAL), mode="append",
            storage_options=delta_options(place(settings)),
        )  # fmt: skip
        table = open_table(place(settings))
        if table is not None and table.version() % COMPACT_EVERY == COMPACT_EVERY - 1:
            table.optimize.compact()
            table.create_checkpoint()
            table.vacuum(dry_run=False)
        for entry in entries:
            _News.recent.append((settings.home, entry))
            _News.counts[settings.home, entry["alert"]] += 1


def entries_after(settings: Settings, alert: str, after: int) -> list[dict[str, Any]]:
    """What an alert has said since, from memory where that is all of it."""
    with _TURN:
        recent = [
            entry
            for home, entry in _News.recent
            if home == settings.home and entry["alert"] == alert and entry["number"] > after
        ]
    if recent and recent[0]["number"] == after + 1:
        return [_parsed(entry) for entry in recent]
    return read_journal(settings, alert, after)


def read_journal(
    settings: Settings, alert: str | None = None, after: int = 0, view: str | None = None
) -> list[dict[str, Any]]:
    """Entries in their order, of one alert or of all; `keys` and `numbers` are mappings."""
    table: DeltaTable | None = open_table(place(settings))
    if table is None:
        return []
    rows = table.to_pyarrow_table()
    wanted: Iterable[tuple[str, Any]] = (("alert", alert), ("view", view))
    for column, value in wanted:
        if value is not None:
            rows = rows.filter(pc.equal(rows[column], value))
    rows = rows.filter(pc.greater(rows["number"], after))
    rows = rows.sort_by([("at", "ascending"), ("number", "ascending")])
    return [_parsed(entry) for entry in rows.to_pylist()]


def _parsed(entry: dict[str, Any]) -> dict[str, Any]:
    return entry | {"keys": json.loads(entry["keys"]), "numbers": json.loads(entry["numbers"])}


def newest_of_each(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What stands now: the last word on each spot, the newest first, with when it fired and if it was corrected."""
    last: dict[str, dict[str, Any]] = {}
    for entry in entries:
        first = last.pop(entry["id"], entry)
        last[entry["id"]] = entry | {
            "fired": first.get("fired", first["at"]),
            "corrected": entry["change"] == "corrected" or first.get("corrected", False),
            "state": state_of_entry(entry),
        }
    return list(last.values())[::-1]


def listed(settings: Settings, alert: str | None = None, view: str | None = None) -> list[dict[str, Any]]:
    """What stands now, as programs read it."""
    hidden = ("number", "change", "fires", "quiet")
    return [
        {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in entry.items()
            if name not in hidden
        }
        for entry in newest_of_each(read_journal(settings, alert, view=view))
    ]


def state_of_entry(entry: dict[str, Any]) -> str:
    """firing, resolved, or withdrawn: it should not have fired."""
    if entry["change"] == "resolved":
        return "resolved"
    return "firing" if entry["fires"] else "withdrawn"
