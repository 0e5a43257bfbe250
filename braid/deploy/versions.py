"""The versions of a view, which of them is served, and how that may change: values and pure transitions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Literal, NoReturn

from braid.define.fingerprint import fingerprint, state_fingerprint
from braid.define.view import View
from braid.errors import BraidError

Phase = Literal["replaying", "candidate", "active", "previous", "retired"]


@dataclass(frozen=True)
class Version:
    """One set of tables of a view, and the definition that fills them."""

    number: int
    view: View
    phase: Phase
    created: datetime
    from_day: date | None = None
    # As they were when the tables were begun: a newer Braid may compute the same definition otherwise.
    fingerprint: str = ""
    state_fingerprint: str = ""

    def __post_init__(self) -> None:
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", fingerprint(self.view))
            object.__setattr__(self, "state_fingerprint", state_fingerprint(self.view))


@dataclass(frozen=True)
class HistoryEntry:
    """What happened to a deployment; of a rollback, `version` is the one that is served again."""

    at: datetime
    what: str
    version: int
    because: str | None = None


@dataclass(frozen=True)
class Deployment:
    """A view as it is deployed: all the versions that it had, and how it came to this."""

    name: str
    versions: tuple[Version, ...] = ()
    history: tuple[HistoryEntry, ...] = ()

    @property
    def active(self) -> Version | None:
        """The version that is served."""
        return next((version for version in self.versions if version.phase == "active"), None)

    @property
    def candidate(self) -> Version | None:
        """The version that may become the active one next; there is at most one."""
        return next((v for v in self.versions if v.phase in ("replaying", "candidate")), None)

    @property
    def running(self) -> tuple[Version, ...]:
        """The versions that streams keep fresh: a replay has a process of its own."""
        return tuple(v for v in self.versions if v.phase not in ("replaying", "retired"))

    @property
    def withdrawn(self) -> Version | None:
        """The version that the last rollback left, until another is promoted, or it is retired."""
        _, number = _service(self.history)
        left = self.version(number) if number is not None else None
        return left if left is not None and left.phase in ("candidate", "previous") else None

    def version(self, number: int) -> Version:
        for version in self.versions:
            if version.number == number:
                return version
        there = ", ".join(f"{v.number} ({v.phase})" for v in self.versions) or "none"
        raise BraidError(f"view {self.name!r} has no version {number}. Its versions: {there}.")


def deployed(dep: Deployment, view: View, now: datetime, from_day: date | None = None) -> Deployment:
    """A version for this definition: served at once if it is the only one, replayed first if not.

    The replay that is under way for the same definition and day is resumed: nothing changes. A version that was
    rolled back gives way to the new one, and can still be promoted by its number.
    """
    if view.name != dep.name:
        raise BraidError(f"view {view.name!r} cannot be deployed as {dep.name!r}: rename one of them.")
    under_way = dep.candidate
    if under_way is not None and under_way != dep.withdrawn:
        same = (under_way.fingerprint, under_way.from_day) == (fingerprint(view), from_day)
        if same and under_way.phase == "replaying":
            return dep
        _refuse(
            dep,
            under_way,
            f"and a view has one candidate at a time: `braid kappa promote {dep.name}`, or give it up with "
            f"`braid kappa retire {dep.name} {under_way.number}`",
        )
    first = dep.active is None
    number = max((version.number for version in dep.versions), default=0) + 1
    new = Version(number, view, "active" if first else "replaying", now, from_day)
    aside: dict[int, Phase] = {under_way.number: "previous"} if under_way is not None else {}
    moved = _moved(dep, aside, HistoryEntry(now, "started" if first else "deployed", number))
    return replace(moved, versions=(*moved.versions, new))


def replayed(dep: Deployment, number: int, now: datetime) -> Deployment:
    """The replay has reached the end of the log: from here on the version can be compared and promoted."""
    version = dep.version(number)
    if version.phase != "replaying":
        _refuse(dep, version, f"so no replay of it can end: see `braid kappa status {dep.name}`")
    return _moved(dep, {number: "candidate"}, HistoryEntry(now, "replayed", number))


def promoted(dep: Deployment, number: int, now: datetime, because: str | None = None) -> Deployment:
    """Serves this version from now on; the active one stays beside it as a previous one."""
    version, active = dep.version(number), dep.active
    if version.phase == "active":
        _refuse(dep, version, "so it is served already: there is nothing to promote")
    if version.phase == "replaying":
        _refuse(
            dep, version, f"and its numbers are incomplete: let `braid kappa replay {dep.name}` end first"
        )
    if version.phase == "retired" or active is None:
        _refuse(
            dep, version, f"and its tables are given up: `braid kappa replay {dep.name}` builds a new one"
        )
    phases: dict[int, Phase] = {number: "active", active.number: "previous"}
    return _moved(dep, phases, HistoryEntry(now, "promoted", number, because))


def rolled_back(dep: Deployment, now: datetime) -> Deployment:
    """Serves again what was served before the active version.

    The version that is left becomes the candidate, so that it can be promoted again without a replay; a previous one
    where another candidate is under way, which can be promoted by its number.
    """
    active = dep.active
    if active is None:
        raise BraidError(f"view {dep.name!r} is not deployed: `braid apply` deploys it.")
    served, _ = _service(dep.history)
    earlier = [number for number in served[:-1] if dep.version(number).phase == "previous"]
    if not earlier:
        _refuse(dep, active, "and nothing that was served before it is left: change the definition instead")
    left: Phase = "candidate" if dep.candidate is None else "previous"
    change = HistoryEntry(now, "rolled back", earlier[-1], f"version {active.number} was left")
    return _moved(dep, {earlier[-1]: "active", active.number: left}, change)


def retired(dep: Deployment, number: int, now: datetime) -> Deployment:
    """Gives a version up: it is not kept fresh any more, and its tables may be deleted."""
    version = dep.version(number)
    if version.phase == "active":
        _refuse(
            dep,
            version,
            f"and it is served: `braid kappa promote {dep.name}` or `braid kappa rollback {dep.name}` first; or take "
            "the view out of the definitions, then `braid apply`",
        )
    if version.phase == "retired":
        _refuse(dep, version, f"already: see `braid kappa status {dep.name}`")
    return _moved(dep, {number: "retired"}, HistoryEntry(now, "retired", number))


def presented(dep: Deployment, view: View, now: datetime) -> Deployment:
    """The active version with another definition of the same states: its tables stay as they are."""
    active = dep.active
    if active is None:
        raise BraidError(f"view {dep.name!r} is not deployed: `braid apply` deploys it.")
    if state_fingerprint(view) != active.state_fingerprint:
        _refuse(dep, active, "and the new definition needs other states: `braid apply` replays them")
    if view == active.view:
        return dep
    new = replace(active, view=view, fingerprint="")
    versions = tuple(new if version == active else version for version in dep.versions)
    return replace(
        dep, versions=versions, history=(*dep.history, HistoryEntry(now, "presented", active.number))
    )


def removed(dep: Deployment, now: datetime) -> Deployment:
    """The view is defined no more: all its versions are retired."""
    if dep.active is None:
        raise BraidError(f"view {dep.name!r} is not deployed, so it cannot be removed: see `braid plan`.")
    phases: dict[int, Phase] = {version.number: "retired" for version in dep.versions}
    return _moved(dep, phases, HistoryEntry(now, "removed", dep.active.number))


def _service(history: tuple[HistoryEntry, ...]) -> tuple[list[int], int | None]:
    """The versions that were served, each on top of the one that a rollback returns to; and the one that was left."""
    served: list[int] = []
    left = None
    for change in history:
        if change.what in ("started", "promoted"):
            served.append(change.version)
            left = None
        elif change.what == "rolled back":
            left = served[-1]
            # Versions that were retired meanwhile lie between the two.
            while served[-1] != change.version:
                served.pop()
    return served, left


def _moved(dep: Deployment, phases: Mapping[int, Phase], change: HistoryEntry) -> Deployment:
    versions = tuple(replace(v, phase=phases.get(v.number, v.phase)) for v in dep.versions)
    return replace(dep, versions=versions, history=(*dep.history, change))


def _refuse(dep: Deployment, version: Version, reason: str) -> NoReturn:
    raise BraidError(f"view {dep.name!r}: version {version.number} is {version.phase}, {reason}.")
