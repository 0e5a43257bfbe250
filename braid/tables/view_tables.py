"""The tables of one version of a view: where they live, what they look like, and what was noted of their days."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from braid.define.view import View
from braid.define.windows import Session
from braid.deploy.versions import Version
from braid.runtime import documents
from braid.runtime.settings import Settings
from braid.states import state_columns

LATE = "_late"
FINGERPRINT = "braid.fingerprint"
REPLAY_CUT = "braid.replayCut"
# The id of the log's table.
LOG = "braid.log"
PROPERTIES = {
    "delta.enableDeletionVectors": "false",
    # A commit every second: the one that pays for a checkpoint, and the one after it, take seconds.
    "delta.checkpointInterval": "300",
    # Appends slow down with the files in the commit log; nobody needs a tail as it was yesterday.
    "delta.logRetentionDuration": "interval 1 day",
    "delta.deletedFileRetentionDuration": "interval 1 day",
    # Statistics of `day`, `through` and the first bound let readers skip files; those of states help nobody.
    "delta.dataSkippingNumIndexedCols": "3",
}

Note = Mapping[str, Any]
# Older than all that has a time: documents of one day as they were written before a document could hold many.
LONG_AGO = ""


@dataclass(frozen=True)
class ViewTables:
    """Where one version of a view lives."""

    settings: Settings
    view: str
    number: int

    @classmethod
    def of(cls, settings: Settings, version: Version) -> "ViewTables":
        return cls(settings, version.view.name, version.number)

    @property
    def tail(self) -> str:
        return self._location("tail")

    @property
    def base(self) -> str:
        return self._location("base")

    @property
    def checkpoint(self) -> str:
        return self._location("checkpoint")

    @property
    def folder(self) -> str:
        return self.settings.location("views", self.view, f"v{self.number}")

    def _location(self, part: str) -> str:
        return f"{self.folder}/{part}"


def bounds(view: View) -> tuple[str, ...]:
    """The columns that say when: a pane, or the first and the last event of a partial session."""
    return ("first", "last") if isinstance(view.window, Session) else ("pane",)


def tail_columns(view: View) -> tuple[str, ...]:
    return ("epoch", "day", *bounds(view), LATE, *view.keys, *state_columns(view))


def base_columns(view: View) -> tuple[str, ...]:
    return ("day", "through", *bounds(view), LATE, *view.keys, *state_columns(view))


@dataclass(frozen=True)
class Notes:
    """A folder of such documents. Nobody changes one that another wrote, so that writers need no lock."""

    folder: str

    def read(self) -> dict[date, Note]:
        """Day -> what was said of it last."""
        newest: dict[date, tuple[str, Note]] = {}
        for name in documents.names(self.folder):
            at, days = self._document(name)
            for day, note in days.items():
                if day not in newest or at >= newest[day][0]:
                    newest[day] = at, note
        return {day: note for day, (_, note) in sorted(newest.items())}

    def write(self, notes: Mapping[date, Note]) -> None:
        """One document for all of them. One day's takes the place of that day's, many days' of those it repeats."""
        if not notes:
            return
        first, last = min(notes), max(notes)
        repeated = [] if len(notes) == 1 else [name for name in self._of_many() if self._is_in(name, notes)]
        name = f"{first}.json" if len(notes) == 1 else f"{first}_{last}_{uuid.uuid4().hex[:8]}.json"
        document = {
            "at": datetime.now(UTC).isoformat(),
            "days": {day.isoformat(): note for day, note in sorted(notes.items())},
        }
        documents.write(f"{self.folder}/{name}", json.dumps(document, default=_isoformat) + "\n")
        for name in repeated:
            documents.remove(f"{self.folder}/{name}")

    def _of_many(self) -> list[str]:
        return [name for name in documents.names(self.folder) if "_" in name]

    def _is_in(self, name: str, notes: Mapping[date, Note]) -> bool:
        first, last = map(date.fromisoformat, name.split("_")[:2])
        return first in notes and last in notes and self._document(name)[1].keys() <= notes.keys()

    def _document(self, name: str) -> tuple[str, dict[date, Note]]:
        text = documents.read(f"{self.folder}/{name}")
        if text is None:
            # Another writer has repeated it meanwhile, and removed it.
            return LONG_AGO, {}
        found = json.loads(text)
        if "days" not in found:
            return LONG_AGO, {date.fromisoformat(name.removesuffix(".json")): found}
        return found["at"], {date.fromisoformat(day): note for day, note in found["days"].items()}


def _isoformat(moment: date) -> str:
    return moment.isoformat()


def day_notes(tables: ViewTables) -> Notes:
    """What the batch layer notes of the days of a version of a view."""
    return Notes(f"{tables.folder}/days")


def published_cuts(tables: ViewTables) -> dict[date, datetime]:
    """Day -> the cut at which the batch layer published it last."""
    publishes = {day: note["publish"] for day, note in day_notes(tables).read().items()}
    return {day: datetime.fromisoformat(one["cut"]) for day, one in publishes.items() if one is not None}
