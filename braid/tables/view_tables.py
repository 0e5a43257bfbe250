"""The tables of one version of a view: its tail and its base, where they live and what they look like."""

from dataclasses import dataclass

from braid.define.view import View
from braid.define.windows import Session
from braid.runtime.settings import Settings
from braid.states import state_columns

LATE = "_late"
FINGERPRINT = "braid.fingerprint"
REPLAY_CUT = "braid.replayCut"
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


@dataclass(frozen=True)
class ViewTables:
    """Where one version of a view lives."""

    settings: Settings
    view: str
    number: int

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
