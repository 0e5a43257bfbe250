"""Which version of a view is served: started, replayed, promoted when it proves itself, rolled back, retired."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from braid.deploy import store as deployment
from braid.deploy import versions
from braid.deploy.plan import PlannedChange
from braid.deploy.store import deploy_first
from braid.deploy.versions import Deployment, Version
from braid.errors import BraidError, CheckFailed
from braid.lineage.datasets import base_of, served, tail_of
from braid.lineage.events import LineageJob, Told
from braid.lineage.runs import begun
from braid.log import contents as logs
from braid.log.table import Log
from braid.parity import Parity, side_by_side, states_of, with_truth, with_version
from braid.runtime import documents
from braid.runtime.settings import Settings
from braid.runtime.status import ENGINE, is_alive, read_all
from braid.tables.view_tables import ViewTables
from speed_layer.jobs.driver_lock import is_driven
from speed_layer.jobs.job import utc_now
from speed_layer.stream.replay import Watch, read_history, replay

# A running engine looks at the deployments every second, and stops a stream between two micro-batches.
PATIENCE = 60.0


@dataclass(frozen=True)
class PromotionCase:
    """What speaks for a version and what against it: a comparison with the log, then one with the active version."""

    version: int
    active: int | None
    parities: tuple[Parity, ...]
    days_lost: tuple[date, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.days_lost and all(parity.holds for parity in self.parities)

    @property
    def against_log(self) -> "PromotionCase":
        """What the log says alone; what a stream makes of every log is no objection then."""
        against = (parity for parity in self.parities[:1] if not parity.as_streamed)
        return replace(self, parities=tuple(against))

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


def judge(spark: SparkSession, settings: Settings, name: str, number: int | None = None) -> PromotionCase:
    """Compares a version, the candidate where none is named, with the log and with the active version."""
    deployed = deployment.load(settings, name)
    version = candidate_of(deployed, number)
    active = deployed.active
    other = active if active is not None and active.number != version.number else None
    states = side_by_side(spark, settings, version, other)
    parities = [with_truth(spark, settings, version, states.mine, states.cut)]
    if other is not None:
        parities.append(with_version(version, other, states))
    lost = (
        _days_lost(spark, settings, version, other) if other is not None and states.theirs is not None else ()
    )
    return PromotionCase(version.number, active.number if active else None, tuple(parities), lost)


def _days_lost(
    spark: SparkSession, settings: Settings, version: Version, active: Version
) -> tuple[date, ...]:
    """Days that the active version serves and a version that was replayed from a later day does not have."""
    if version.from_day is None or (active.from_day is not None and active.from_day >= version.from_day):
        return ()
    states = states_of(spark, settings, active)
    days = states.where(F.col("day") < F.lit(version.from_day)).select("day").distinct().collect()
    return tuple(sorted(row.day for row in days))


def promote(
    settings: Settings, name: str, case: PromotionCase, now: datetime, accepted: str | None = None
) -> Deployment:
    """One atomic change of the pointer. Differences must be accepted, and the reason is kept."""
    objections = case.objections()
    if objections and accepted is None:
        raise CheckFailed(
            f"v{case.version} of view {name!r} is not promoted: {'; '.join(objections)}. If that is what you want, "
            f'say why: braid kappa promote {name} --accept-differences "..."'
        )
    because = f"{accepted} ({'; '.join(objections)})" if objections else accepted
    with _pointed(settings, name, "promote") as draft:
        draft.value = versions.promoted(draft.value, case.version, now, because)
    return draft.value


def rollback(settings: Settings, name: str, now: datetime) -> Deployment:
    with _pointed(settings, name, "rollback") as draft:
        draft.value = versions.rolled_back(draft.value, now)
    return draft.value


@contextmanager
def _pointed(settings: Settings, name: str, how: str) -> Iterator[deployment.Draft]:
    """A change of the version that is served; lineage hears of it when it is made."""
    with deployment.changing(settings, name) as draft:
        yield draft
    served_now = draft.value.active
    if served_now is not None and (run := begun(settings, lambda: _pointing(settings, served_now, how))):
        run.end(Told(facets={"braid_version": {"version": served_now.number}}))


def _pointing(settings: Settings, version: Version, how: str) -> LineageJob:
    tables = (base_of(version, settings), tail_of(version, settings))
    return LineageJob(f"{how}.{version.view.name}", "BATCH", tables, (served(version.view, settings),))


def retire(settings: Settings, name: str, number: int, now: datetime) -> Deployment:
    """Gives a version up and deletes its tables, as soon as no stream writes them any more."""
    tables = ViewTables(settings, name, number)
    with deployment.changing(settings, name) as draft:
        if draft.value.version(number).phase != "retired" or not documents.names(tables.folder):
            draft.value = versions.retired(draft.value, number, now)
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


@dataclass(frozen=True)
class Applied:
    """What was done about one view."""

    name: str
    did: str
    version: int | None = None


@dataclass
class Applier:
    """`spark` is a function: most changes need none."""

    spark: Callable[[], SparkSession]
    settings: Settings
    watch: Watch
    stop: threading.Event
    clock: Callable[[], datetime] = utc_now

    def apply(self, change: PlannedChange) -> Applied:
        if change.step == "start":
            return self._start(change)
        if change.step in ("replay", "resume"):
            return self._replay(change)
        if change.step == "promote":
            assert change.version is not None
            return self._promote(change, change.version)
        return self._record(change)

    def _start(self, change: PlannedChange) -> Applied:
        assert change.definition is not None
        deploy_first(self.settings, change.definition, self.clock())
        version = deployment.load(self.settings, change.name).active
        assert version is not None
        if any(running.process == ENGINE and is_alive(running) for running in read_all(self.settings)):
            return Applied(change.name, "deployed: the running streams take it up", version.number)
        if not logs.exists(self.spark(), Log(change.definition.source, self.settings)):
            return Applied(change.name, "deployed: it begins with its source's first event", version.number)
        read_history(self.spark(), self.settings, version, self.watch, self.stop, self.clock)
        return Applied(change.name, "has read its history; `braid stream` keeps it fresh", version.number)

    def _replay(self, change: PlannedChange) -> Applied:
        assert change.definition is not None
        version = replay(
            self.spark(), self.settings, change.definition, from_day=change.from_day,
            watch=self.watch, stop=self.stop, clock=self.clock,
        )  # fmt: skip
        return self._promote(change, version.number)

    def _promote(self, change: PlannedChange, number: int) -> Applied:
        """That a changed definition gives other numbers is the point; that it differs from the log is a defect."""
        case = judge(self.spark(), self.settings, change.name, number)
        against_log = case.against_log
        if not against_log.holds:
            raise CheckFailed(
                f"v{number} of view {change.name!r} is not promoted: {'; '.join(against_log.objections())}. The active "
                f"version is served as before. If that is what you want, say why: braid kappa promote {change.name} "
                '--accept-differences "..."'
            )
        why = "the definition has changed: " + "; ".join(map(str, change.differences))
        promote(self.settings, change.name, case, self.clock(), why)
        return Applied(
            change.name, f"v{number} is served; `braid kappa rollback {change.name}` returns", number
        )

    def _record(self, change: PlannedChange) -> Applied:
        with deployment.changing(self.settings, change.name) as draft:
            if change.step == "present":
                assert change.definition is not None
                draft.value = versions.presented(draft.value, change.definition, self.clock())
                return Applied(change.name, "is presented as defined now; its tables stay", change.version)
            if change.step == "retire":
                draft.value = versions.removed(draft.value, self.clock())
                return Applied(change.name, "all its versions are retired", change.version)
        return Applied(change.name, change.action, change.version)
