"""Does what a plan says: starts, replays, compares, promotes, presents and retires, one view after another."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from braid.deploy import store as deployment
from braid.deploy import versions
from braid.deploy.plan import PlannedChange
from braid.deploy.store import deploy_first
from braid.errors import CheckFailed
from braid.log import contents as logs
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.runtime.status import ENGINE, is_alive, read_all
from speed_layer.jobs.job import utc_now
from speed_layer.promotion import judge, promote
from speed_layer.stream.replay import Watch, read_history, replay


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
