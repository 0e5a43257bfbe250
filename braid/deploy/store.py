"""Keeps what people have decided: which versions of a view there are and which one is served, and what is paused."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from braid.define.codec import braid_version, decode, encode
from braid.define.fingerprint import fingerprint
from braid.define.view import View
from braid.deploy.versions import Deployment, HistoryEntry, Version, deployed
from braid.errors import BraidError
from braid.runtime import documents
from braid.runtime.lock import alone
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings

PATIENCE = 10.0
logger = Logger("deployment")

Pausable = Literal["stream", "ingest"]


class Draft:
    """A deployment that is being changed: what `value` holds at the end is saved."""

    def __init__(self, value: Deployment) -> None:
        self.value = value


def load(settings: Settings, name: str) -> Deployment:
    """The view's deployment; one without versions if it never had any."""
    return _parsed(name, _uri(settings, name), documents.read(_uri(settings, name)))


def deployments(settings: Settings) -> dict[str, Deployment]:
    """All views that were ever deployed here, by name."""
    found = (load(settings, name) for name in documents.names(settings.location("views")))
    return {dep.name: dep for dep in found if dep.versions}


@contextmanager
def changing(settings: Settings, name: str) -> Iterator[Draft]:
    """Read, change, save, with nobody else in between; a block that raises saves nothing."""
    uri = _uri(settings, name)

    def refusal(file: Path) -> BraidError:
        return BraidError(
            f"another command has been changing view {name!r} for {PATIENCE:g} seconds: wait until it ends, then run "
            f"this one again (the lock is {file})."
        )

    with alone(settings, f"deployment-{name}", PATIENCE, refusal):
        text = documents.read(uri)
        before = _parsed(name, uri, text)
        draft = Draft(before)
        yield draft
        if draft.value == before:
            return
        # A shared BRAID_HOME has no lock: what can be seen of another writer is refused.
        if not settings.home_is_local and documents.read(uri) != text:
            raise BraidError(f"view {name!r} was changed by somebody else meanwhile: run the command again.")
        documents.write(uri, _text(draft.value))


def deploy_first(settings: Settings, view: View, now: datetime) -> None:
    """Serves a view that is not served yet. To deploy a changed one is a decision with a cost, and not taken here."""
    present = load(settings, view.name)
    if present.active is None:
        with changing(settings, view.name) as draft:
            if draft.value.active is None:
                draft.value = deployed(draft.value, view, now)
        return
    if present.active.fingerprint != fingerprint(view):
        logger.warning(
            "the definition has changed since it was deployed; the deployed one goes on. See `braid plan`.",
            view=view.name,
            version=present.active.number,
        )


def _uri(settings: Settings, name: str) -> str:
    return settings.location("views", name, "deployment.json")


def _text(dep: Deployment) -> str:
    versions = [vars(version) | {"view": encode(version.view)} for version in dep.versions]
    history = [asdict(change) for change in dep.history]
    document = {"braid": braid_version(), "name": dep.name, "versions": versions, "history": history}
    return json.dumps(document, indent=1, default=_iso) + "\n"


def _iso(moment: date) -> str:
    return moment.isoformat()


@lru_cache(maxsize=256)
def _parsed(name: str, uri: str, text: str | None) -> Deployment:
    """Kept, because those who follow a view look at its deployment twenty times a second."""
    if text is None:
        return Deployment(name)
    try:
        document = json.loads(text)
        history = tuple(
            HistoryEntry(**change | {"at": datetime.fromisoformat(change["at"])})
            for change in document["history"]
        )
        return Deployment(name, tuple(map(_version, document["versions"])), history)
    except (KeyError, TypeError, ValueError) as error:
        raise BraidError(f"{uri} is damaged ({error!r}): restore it from a backup.") from None
    except BraidError as error:
        raise BraidError(f"{uri}: {error}") from None


def _version(parts: dict[str, Any]) -> Version:
    from_day = parts["from_day"]
    read = {
        "view": decode(parts["view"]),
        "created": datetime.fromisoformat(parts["created"]),
        "from_day": date.fromisoformat(from_day) if from_day else None,
    }
    return Version(**parts | read)


@dataclass(frozen=True)
class Pauses:
    """Names of views whose streams rest, and of sources whose ingest does."""

    stream: tuple[str, ...] = ()
    ingest: tuple[str, ...] = ()

    def of(self, kind: Pausable) -> tuple[str, ...]:
        return self.stream if kind == "stream" else self.ingest


def read_pauses(settings: Settings) -> Pauses:
    text = documents.read(_pauses_uri(settings))
    if text is None:
        return Pauses()
    try:
        return Pauses(**{kind: tuple(names) for kind, names in json.loads(text).items()})
    except (TypeError, ValueError, AttributeError) as error:
        raise BraidError(
            f"{_pauses_uri(settings)} is damaged ({error}): delete it, and pause again."
        ) from None


def set_pause(settings: Settings, kind: Pausable, names: tuple[str, ...], is_paused: bool) -> Pauses:
    """Adds names to those that rest, or takes them off; whoever runs them sees it within a second or so."""
    with alone(settings, "pauses", PATIENCE):
        old = read_pauses(settings)
        wanted = {*old.of(kind)} | {*names} if is_paused else {*old.of(kind)} - {*names}
        new = Pauses(**asdict(old) | {kind: tuple(sorted(wanted))})
        documents.write(_pauses_uri(settings), json.dumps(asdict(new)) + "\n")
    return new


def _pauses_uri(settings: Settings) -> str:
    return settings.location("pauses.json")
