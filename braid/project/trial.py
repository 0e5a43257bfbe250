"""Tests of a user's views: files that name a view, a file of events, and a naive truth."""

import runpy
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from braid.define.loading import Definitions
from braid.define.view import View
from braid.errors import BraidError

Event = dict[str, Any]
# (keys, and the start of the window where there is one) -> measure -> number.
Rows = dict[tuple[Any, ...], dict[str, Any]]

_OTHERS = ("test_", "conftest.", "__init__.")


@dataclass(frozen=True)
class Trial:
    """One test: a view, the file of its events, and what they should give."""

    name: str
    view: View
    events: Path
    truth: Callable[[Sequence[Event]], Mapping[Any, Mapping[str, Any]]]

    def expected(self, events: Sequence[Event]) -> Rows:
        try:
            rows = self.truth(events)
            return {_group(key): dict(numbers) for key, numbers in rows.items()}
        except Exception as error:
            frames = [
                frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self.name
            ]
            where = f"{self.name}:{frames[-1].lineno}" if frames else self.name
            raise BraidError(
                f"{where}: truth() failed: {type(error).__name__}: {error}. It takes a list of events and gives "
                "{(keys..., window start): {measure: number}}."
            ) from None


def in_folder(folder: Path) -> list[Path]:
    """The tests of a folder, which may hold some of pytest's too."""
    return [file for file in sorted(folder.glob("*.py")) if not file.name.startswith(_OTHERS)]


def trials(definitions: Definitions, files: Sequence[Path]) -> list[Trial]:
    return [_trial(definitions, file) for file in files]


def _trial(definitions: Definitions, file: Path) -> Trial:
    if not file.is_file():
        raise BraidError(f"{file} is not a file: name a test, such as tests/orders_per_day.py.")
    try:
        said = runpy.run_path(str(file))
    except (Exception, SystemExit) as error:
        raise BraidError(f"{file} does not load: {type(error).__name__}: {error}") from None
    fits = {"view": isinstance(said.get("view"), str), "events": isinstance(said.get("events"), str)}
    for name, fit in (fits | {"truth": callable(said.get("truth"))}).items():
        if not fit:
            raise BraidError(
                f'{file} has no {name!r}: a test says view = "...", events = "..." and def truth(events).'
            )
    events = file.parent / str(said["events"])
    if not events.is_file():
        raise BraidError(f"{file}: there is no file {events} with events.")
    view = definitions.view(str(said["view"]))
    return Trial(str(file), view, events, said["truth"])


def _group(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)
