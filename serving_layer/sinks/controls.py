"""What a person has said about the sinks of a view: pause these, deliver those anew. Kept in BRAID_HOME."""

import hashlib
import json
import re
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass

from braid.errors import BraidError
from braid.runtime import documents
from braid.runtime.lock import alone
from braid.runtime.settings import Settings

PATIENCE = 10.0


@dataclass(frozen=True)
class Controls:
    """The names of sinks that are paused, and of those that are to deliver everything again."""

    paused: tuple[str, ...] = ()
    replay: tuple[str, ...] = ()


def place_of(settings: Settings, view: str, name: str) -> str:
    """Where what belongs to one sink is kept."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return settings.location("sinks", view, f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}")


def last_revision(place: str) -> int:
    """The largest revision that was ever given to a sink, also when the sink itself has forgotten it."""
    text = documents.read(f"{place}/revision.json")
    return 0 if text is None else int(json.loads(text)["revision"])


def note_revision(place: str, revision: int) -> None:
    """Before it is used: a number that was given away is never given again."""
    documents.write(f"{place}/revision.json", json.dumps({"revision": revision}) + "\n")


def read_controls(settings: Settings, view: str) -> Controls:
    text = documents.read(_uri(settings, view))
    if text is None:
        return Controls()
    try:
        return Controls(**{name: tuple(values) for name, values in json.loads(text).items()})
    except (TypeError, ValueError, AttributeError) as error:
        raise BraidError(f"{_uri(settings, view)} is damaged ({error}): delete it.") from None


def pause(settings: Settings, view: str, names: Collection[str]) -> Controls:
    return _change(settings, view, lambda old: Controls(_with(old.paused, names), old.replay))


def resume(settings: Settings, view: str, names: Collection[str]) -> Controls:
    return _change(settings, view, lambda old: Controls(_without(old.paused, names), old.replay))


def ask_replay(settings: Settings, view: str, names: Collection[str]) -> Controls:
    return _change(settings, view, lambda old: Controls(old.paused, _with(old.replay, names)))


def replay_done(settings: Settings, view: str, name: str) -> Controls:
    return _change(settings, view, lambda old: Controls(old.paused, _without(old.replay, [name])))


def _change(settings: Settings, view: str, change: Callable[[Controls], Controls]) -> Controls:
    with alone(settings, f"sinks-of-{view}", PATIENCE):
        new = change(read_controls(settings, view))
        documents.write(_uri(settings, view), json.dumps(asdict(new)) + "\n")
    return new


def _uri(settings: Settings, view: str) -> str:
    return settings.location("sinks", view, "controls.json")


def _with(names: Collection[str], more: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted({*names, *more}))


def _without(names: Collection[str], gone: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted({*names} - {*gone}))
