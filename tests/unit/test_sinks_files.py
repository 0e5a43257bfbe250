"""A folder of files, read with the newest revision of each row kept, is what is served."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from braid import files, session, tumbling
from braid.define.windows import Window
from braid.runtime.settings import Settings
from serving_layer.answer.json_values import plain_rows
from serving_layer.sinks.folder import Folder
from tests.serving import MIDNIGHT, MINUTE, SOURCE, some_events, view_of
from tests.sinks import Feeding, as_texts, begun, go_back, promote, served


def newest(folder: Path) -> list[str]:
    """By hand: of each row the record with the largest revision, without those that were withdrawn."""
    kept: dict[str, dict[str, Any]] = {}
    for file in folder.iterdir():
        if file.suffix == ".jsonl":
            records = [json.loads(line) for line in file.read_text().splitlines()]
            flat = [r | r["keys"] | r["numbers"] | {"_status": r["status"]} for r in records]
        else:
            flat = [row | {"revision": row["_revision"], "change": row["_change"]} for row in _rows(file)]
        for row in flat:
            name = str((row["host"], row["window_start"]))
            if name not in kept or kept[name]["revision"] < row["revision"]:
                kept[name] = row
    columns = ("host", "window_start", "window_end", "hits", "total", "most", "_status")
    return as_texts({c: row[c] for c in columns} for row in kept.values() if row["change"] != "withdrawn")


def _rows(file: Path) -> list[dict[str, Any]]:
    return plain_rows(pq.read_table(file), SOURCE.zone)


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
@pytest.mark.parametrize("emit", ["updates", "final", "revisions"])
@pytest.mark.parametrize(
    "window", [tumbling("1 minute"), session(gap="30 minutes")], ids=["minute", "session"]
)
def test_the_files_say_what_is_served(
    home: Path, tmp_path: Path, window: Window, emit: Any, format: Any
) -> None:
    settings, folder = Settings(home=str(home)), tmp_path / "out"
    sink = files(str(folder), format=format, emit=emit, every="1 millisecond")
    tables = begun(settings, window)
    feeding = Feeding(settings, sink, Folder(sink, str(home / "sinks")))
    draw = random.Random(emit)
    for turn in range(1, 7):
        epoch = MIDNIGHT + turn * MINUTE
        tables.append(some_events(draw.randrange(99), 6, epoch, hours=draw.randrange(1, 30)))
        feeding.look()
        if draw.random() < 0.4:
            feeding = Feeding(settings, sink, Folder(sink, str(home / "sinks")))
        feeding.delivering._due = 0.0
        feeding.turn()
        assert newest(folder) == served(settings, final=emit != "updates")
    before = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    (folder / ".hits-9.parquet.draft").write_text("half of a file, of one that was killed")
    Feeding(settings, sink, Folder(sink, str(home / "sinks"))).turn()
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == before


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_rows_of_a_version_with_other_keys_are_withdrawn_under_their_own(
    home: Path, tmp_path: Path, format: Any
) -> None:
    settings, folder = Settings(home=str(home)), tmp_path / "out"
    sink = files(str(folder), format=format, every="1 millisecond")
    tables = begun(settings, tumbling("1 minute"))
    feeding = Feeding(settings, sink, Folder(sink, str(home / "sinks")))
    feeding.turn()
    first = newest(folder)
    promote(settings, tables, view_of(tumbling("1 minute"), keys=()))
    feeding.look()
    feeding.delivering._due = 0.0
    feeding.turn()
    kept = Folder(sink, str(home / "sinks")).held(view_of(tumbling("1 minute"))).state.values()
    hidden = ("_version", "_keys")
    assert as_texts({n: v for n, v in row.items() if n not in hidden} for row in kept) == served(settings)
    go_back(settings)
    feeding.look()
    feeding.delivering._due = 0.0
    feeding.turn()
    kept = Folder(sink, str(home / "sinks")).held(view_of(tumbling("1 minute"))).state.values()
    assert (
        as_texts({n: v for n, v in row.items() if n not in hidden} for row in kept)
        == served(settings)
        == first
    )


def test_a_folder_gets_a_file_not_more_often_than_it_is_asked_for(home: Path, tmp_path: Path) -> None:
    settings, folder = Settings(home=str(home)), tmp_path / "out"
    sink = files(str(folder), every="1 hour")
    tables = begun(settings, tumbling("1 minute"))
    feeding = Feeding(settings, sink, Folder(sink, str(home / "sinks")))
    feeding.turn()
    tables.append(some_events(1, 6, MIDNIGHT + MINUTE))
    feeding.look()
    assert not feeding.delivering.turn()
    assert len(list(folder.iterdir())) == 1
    assert (feeding.delivering.status().lag_events or 0) > 0


def test_a_revision_is_never_given_twice_also_when_somebody_takes_the_files_away(
    home: Path, tmp_path: Path
) -> None:
    settings, folder = Settings(home=str(home)), tmp_path / "out"
    sink = files(str(folder), format="jsonl")
    begun(settings, tumbling("1 minute"))
    Feeding(settings, sink, Folder(sink, str(home / "sinks"))).turn()
    (taken,) = folder.iterdir()
    taken.unlink()
    Feeding(settings, sink, Folder(sink, str(home / "sinks"))).turn()
    (again,) = folder.iterdir()
    assert again.name > taken.name
    assert newest(folder) == served(settings)


def test_a_folder_that_cannot_be_written_is_said(home: Path, tmp_path: Path) -> None:
    settings = Settings(home=str(home))
    (tmp_path / "file").write_text("")
    sink = files(str(tmp_path / "file" / "out"))
    begun(settings, tumbling("1 minute"))
    feeding = Feeding(settings, sink, Folder(sink, str(home / "sinks")))
    assert not feeding.delivering.turn()
    assert "cannot be used" in (feeding.delivering.status().error or "")
    assert "cannot be used" in (Folder(sink, str(home / "sinks")).problem() or "")
