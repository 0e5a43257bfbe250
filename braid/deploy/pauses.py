"""What a person has paused: streams of views and the ingest of sources. Kept in BRAID_HOME until they go on."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from braid.errors import BraidError
from braid.runtime import documents
from braid.runtime.lock import locked
from braid.runtime.settings import Settings

Pausable = Literal["stream", "ingest"]
PATIENCE = 10.0


@dataclass(frozen=True)
class Pauses:
    """Names of views whose streams rest, and of sources whose ingest does."""

    stream: tuple[str, ...] = ()
    ingest: tuple[str, ...] = ()

    def of(self, kind: Pausable) -> tuple[str, ...]:
        return self.stream if kind == "stream" else self.ingest


def read_pauses(settings: Settings) -> Pauses:
    text = documents.read(_uri(settings))
    if text is None:
        return Pauses()
    try:
        return Pauses(**{kind: tuple(names) for kind, names in json.loads(text).items()})
    except (TypeError, ValueError, AttributeError) as error:
        raise BraidError(f"{_uri(settings)} is damaged ({error}): delete it, and pause again.") from None


def set_pause(settings: Settings, kind: Pausable, names: tuple[str, ...], is_paused: bool) -> Pauses:
    """Adds names to those that rest, or takes them off; whoever runs them sees it within a second or so."""
    if not settings.home_is_local:
        return _changed(settings, kind, names, is_paused)
    with locked(Path(settings.local_home()) / "drivers" / "pauses", PATIENCE):
        return _changed(settings, kind, names, is_paused)


def _changed(settings: Settings, kind: Pausable, names: tuple[str, ...], is_paused: bool) -> Pauses:
    old = read_pauses(settings)
    wanted = {*old.of(kind)} | {*names} if is_paused else {*old.of(kind)} - {*names}
    new = Pauses(**asdict(old) | {kind: tuple(sorted(wanted))})
    documents.write(_uri(settings), json.dumps(asdict(new)) + "\n")
    return new


def _uri(settings: Settings) -> str:
    return settings.location("pauses.json")
