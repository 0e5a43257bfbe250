"""Which version of a view is served: promoted when it proves itself, rolled back in a moment, retired for good."""

import time
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

from braid.deploy import store as deployment
from braid.deploy.store import Deployment, Version
from braid.errors import BraidError, CheckFailed
from braid.parity import Parity
from braid.runtime.settings import Settings
from braid.tables import documents
from braid.tables.view_tables import ViewTables
from speed_layer.jobs.driver_lock import is_driven
from speed_layer.parity import compare, days_lost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A running engine looks at the deployments every second, and stops a stream between two micro-batches.
PATIENCE = 60.0


@dataclass(frozen=True)
class Verdict:
    """What speaks for a version, and what against it."""

    version: int
    active: int | None
    parities: tuple[Parity, ...]
    days_lost: tuple[date, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.days_lost and all(parity.holds for parity in self.parities)

    def objections(self) -> list[str]:
        found = [parity.says() for parity in self.parities if not parity.holds]
        if self.days_lost:
            found.append(
                f"v{self.version} begins later: {len(self.days_lost)} days, {self.days_lost[0]} to "
                f"{self.days_lost[-1]}, would be served no more"
            )
        return found


def candidate_of(deployed: Deployment, number: int | None) -> Version:
    if number is not None:
        return deployed.version(number)
    if deployed.candidate is None:
        raise BraidError(
            f"view {deployed.name!r} has no candidate: `braid kappa replay {deployed.name}` makes one, and "
            f"`braid kappa status {deployed.name}` lists its versions."
        )
    return deployed.candidate


def judge(spark: "SparkSession", settings: Settings, name: str, number: int | None = None) -> Verdict:
    """Compares a version, the candidate where none is named, with the log and with the active version."""
    deployed = deployment.load(settings, name)
    version = candidate_of(deployed, number)
    active = deployed.active
    parities = tuple(compare(spark, settings, version, active))
    lost = days_lost(spark, settings, version, active)
    return Verdict(version.number, active.number if active else None, parities, lost)


def promote(
    settings: Settings, name: str, verdict: Verdict, now: datetime, accepted: str | None = None
) -> Deployment:
    """One atomic change of the pointer. Differences must be accepted, and the reason is kept."""
    objections = verdict.objections()
    if objections and accepted is None:
        raise CheckFailed(
            f"v{verdict.version} of view {name!r} is not promoted: {'; '.join(objections)}. If that is what you want, "
            f'say why: braid kappa promote {name} --accept-differences "..."'
        )
    because = f"{accepted} ({'; '.join(objections)})" if objections else accepted
    with deployment.changing(settings, name) as draft:
        draft.value = deployment.promoted(draft.value, verdict.version, now, because)
    return draft.value


def rollback(settings: Settings, name: str, now: datetime) -> Deployment:
    with deployment.changing(settings, name) as draft:
        draft.value = deployment.rolled_back(draft.value, now)
    return draft.value


def retire(settings: Settings, name: str, number: int, now: datetime) -> Deployment:
    """Gives a version up and deletes its tables, as soon as no stream writes them any more."""
    tables = ViewTables(settings, name, number)
    with deployment.changing(settings, name) as draft:
        if draft.value.version(number).phase != "retired" or not documents.names(tables.folder):
            draft.value = deployment.retired(draft.value, number, now)
    deadline = time.monotonic() + PATIENCE
    while is_driven(settings, f"stream-{name}-v{number}"):
        if time.monotonic() > deadline:
            raise BraidError(
                f"v{number} of view {name!r} is retired, but its stream has not stopped within {PATIENCE:g} seconds: "
                f"its tables are still there. Run `braid kappa retire {name} {number}` again later."
            )
        time.sleep(0.1)
    documents.remove_folder(tables.folder)
    return draft.value
