"""Compares the definitions with what is deployed, and says what would have to be done: data, which `apply` walks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date
from typing import Any, Literal

from braid.define.fingerprint import fingerprint, state_fingerprint
from braid.define.loading import Definitions
from braid.define.lookup import Lookup
from braid.define.source import Source
from braid.define.view import View
from braid.define.windows import Window
from braid.deploy.versions import Deployment, Version

Kind = Literal[
    "new", "unchanged", "results changed", "presentation changed", "removed", "in progress", "rolled back"
]
Step = Literal["start", "replay", "resume", "promote", "present", "retire", "wait", "nothing"]
# What a person decides, `apply` leaves alone.
IDLE: tuple[Step, ...] = ("wait", "nothing")


@dataclass(frozen=True)
class Cost:
    """How much has to be read again; nothing where the tables stay."""

    events: int = 0
    days: int = 0


CostOf = Callable[[View], Cost]


@dataclass(frozen=True)
class Difference:
    """One field of a definition as it is deployed and as it is defined now; None where it is not there."""

    field: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.field}: {self.old or 'nothing'} -> {self.new or 'nothing'}"


@dataclass(frozen=True)
class PlannedChange:
    """What is to happen to one view, and why.

    `version` is the deployed version that the step is about: the one to resume, promote, present or retire; a replay
    is resumed from its own `from_day`.
    """

    name: str
    kind: Kind
    step: Step
    action: str
    definition: View | None = None
    version: int | None = None
    from_day: date | None = None
    old: str | None = None
    new: str | None = None
    differences: tuple[Difference, ...] = ()
    cost: Cost = Cost()

    @property
    def is_due(self) -> bool:
        """Whether `apply` will do something."""
        return self.step not in IDLE


@dataclass(frozen=True)
class _Decision:
    kind: Kind
    step: Step
    action: str
    version: Version | None = None


def plan(
    definitions: Definitions, deployed: Mapping[str, Deployment], cost: CostOf
) -> tuple[PlannedChange, ...]:
    """A change for each view: the defined ones, those that others look up first, then the removed ones."""
    found = [
        _planned(view, deployed.get(name, Deployment(name)), cost) for name, view in definitions.views.items()
    ]
    return (*found, *_removals(definitions, deployed))


def differences(old: object, new: object, path: str = "") -> tuple[Difference, ...]:
    """What differs between two definitions, field by field."""
    return tuple(_walk(old, new, path))


def _planned(view: View, deployment: Deployment, cost: CostOf) -> PlannedChange:
    active = deployment.active
    if active is None:
        action = "start its stream at the beginning of the log, and serve it"
        decision = _Decision("new", "start", action)
    else:
        decision = _decided(view, deployment, active)
    reads = decision.step in ("start", "replay", "resume")
    return PlannedChange(
        name=view.name,
        kind=decision.kind,
        step=decision.step,
        action=decision.action,
        definition=view,
        version=decision.version.number if decision.version else None,
        from_day=decision.version.from_day if decision.version else None,
        old=active.fingerprint if active else None,
        new=fingerprint(view),
        differences=_explained(view, active) if active else (),
        cost=cost(view) if reads else Cost(),
    )


def _decided(view: View, deployment: Deployment, active: Version) -> _Decision:
    """What to do about a view that is deployed.

    Mode and lateness are in no fingerprint: like presentation they take effect without a replay.
    """
    if active.fingerprint == fingerprint(view) and active.view == view:
        return _Decision("unchanged", "nothing", "nothing", active)
    if active.state_fingerprint == state_fingerprint(view):
        action = f"present version {active.number} like this: its tables stay, and nothing is replayed"
        return _Decision("presentation changed", "present", action, active)
    return _caught_up(view, deployment) or _blocked(view, deployment) or _replay()


def _caught_up(view: View, deployment: Deployment) -> _Decision | None:
    """A version that has these results already, or will have them."""
    wanted, left, candidate = fingerprint(view), deployment.withdrawn, deployment.candidate
    if left is not None and left.fingerprint == wanted:
        action = (
            f"nothing: version {left.number} was rolled back. `braid kappa promote {view.name}` serves it again; a "
            "changed definition replaces it"
        )
        return _Decision("rolled back", "nothing", action, left)
    if candidate is not None and candidate.fingerprint == wanted:
        if candidate.phase == "replaying":
            action = f"resume the replay into version {candidate.number}, compare, promote"
            return _Decision("in progress", "resume", action, candidate)
        action = f"compare version {candidate.number} with the active one, and promote it"
        return _Decision("in progress", "promote", action, candidate)
    same = [v for v in deployment.versions if v.phase == "previous" and v.fingerprint == wanted]
    if same:
        action = f"promote version {same[-1].number}, which has these results: nothing is replayed"
        return _Decision("results changed", "promote", action, same[-1])
    return None


def _blocked(view: View, deployment: Deployment) -> _Decision | None:
    """A view has one candidate at a time, and what to do with another one is not ours to decide."""
    candidate = deployment.candidate
    if candidate is None or candidate == deployment.withdrawn:
        return None
    action = (
        f"nothing yet: version {candidate.number}, of another definition, is {candidate.phase}. "
        f"`braid kappa promote {view.name}` or `braid kappa retire {view.name} {candidate.number}` first"
    )
    return _Decision("results changed", "wait", action, candidate)


def _replay() -> _Decision:
    action = "replay the log into a new version, compare, promote; the active one is served until then"
    return _Decision("results changed", "replay", action)


def _explained(view: View, active: Version) -> tuple[Difference, ...]:
    found = differences(active.view, view)
    if not found and active.fingerprint != fingerprint(view):
        return (Difference("Braid's own computation", "as when it was deployed", "as in this release"),)
    return found


def _removals(definitions: Definitions, deployed: Mapping[str, Deployment]) -> Iterator[PlannedChange]:
    for name in sorted(set(deployed) - set(definitions.views)):
        active = deployed[name].active
        if active is not None:
            action = "stop its streams and retire all its versions: it is defined no more"
            yield PlannedChange(
                name, "removed", "retire", action, version=active.number, old=active.fingerprint
            )


def _walk(old: Any, new: Any, path: str) -> Iterator[Difference]:
    if old == new:
        return
    if isinstance(old, View | Source | Lookup) and type(old) is type(new):
        # What is not compared changes no result: the expectations of a gate.
        for field in (field for field in fields(old) if field.compare):
            yield from _walk(getattr(old, field.name), getattr(new, field.name), _below(path, field.name))
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            yield from _walk(old.get(key), new.get(key), f"{path}[{key!r}]")
    elif _are_lookups(old) and _are_lookups(new) and len(old) == len(new):
        for one, other in zip(old, new, strict=True):
            yield from _walk(one, other, f"{path}[{other.location!r}]")
    else:
        yield Difference(path, _shown(old), _shown(new))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _are_lookups(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, Lookup) for item in value)


def _shown(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, Window):
        return value.describe()
    if isinstance(value, View):
        return f"view {value.name!r}"
    if _are_lookups(value):
        return ", ".join(lookup.label for lookup in value) or None  # type: ignore[attr-defined]
    return repr(value)
