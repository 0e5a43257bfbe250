"""Where versions of a view can be compared: at an epoch that all of them hold. Running streams are waited for."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from braid import cut as cuts
from braid.deploy.store import read_pauses
from braid.deploy.versions import Version
from braid.errors import BraidError, NotYet
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings
from braid.runtime.status import ENGINE, read_all
from braid.tables import delta_rs
from braid.tables.commits import TailCommit, described
from braid.tables.tail_and_base import is_base_lost
from braid.tables.view_tables import ViewTables

# An engine that was killed is back and has caught up by then.
PATIENCE = timedelta(minutes=1)
LOOK = 0.5

Result = TypeVar("Result")

log = Logger("compare")


def when_comparable(
    settings: Settings,
    versions: Sequence[Version],
    read: Callable[[datetime], Result],
    patience: timedelta = PATIENCE,
) -> Result:
    """What is read of versions at the last epoch that all of them hold completely, and no base of theirs goes beyond.

    A stream that is behind is waited for where one runs; where none does, that is said at once. A base that has gone
    on before it was read is `NotYet` too: it is read again at a later cut.
    """
    end = time.monotonic() + patience.total_seconds()
    is_told = False
    while True:
        try:
            cut = _cut_now(settings, versions)
        except NotYet as reason:
            if time.monotonic() >= end or not is_streamed(settings, versions[0].view.name):
                raise
            if not is_told:
                log.info("waiting for the streams", reason=str(reason))
                is_told = True
            time.sleep(LOOK)
            continue
        try:
            return read(cut)
        except NotYet:
            if time.monotonic() >= end:
                raise


def is_streamed(settings: Settings, view: str) -> bool:
    """Whether a process keeps the view up to date, or died so lately that it may be on its way back.

    One that ends as it should takes its status with it.
    """
    if view in read_pauses(settings).stream:
        return False
    since = datetime.now(UTC) - PATIENCE
    return any(
        process.process == ENGINE or any(one.kind == "stream" and one.view == view for one in process.queries)
        for process in read_all(settings)
        if process.updated >= since
    )


def _cut_now(settings: Settings, versions: Sequence[Version]) -> datetime:
    complete: list[datetime] = []
    covered: list[datetime] = []
    for version in versions:
        upto = complete_upto(settings, version)
        if upto is None:
            raise BraidError(
                f"version {version.number} of view {version.view.name!r} has not read its history to the end: let "
                f"`braid kappa replay {version.view.name}` or `braid stream {version.view.name}` finish first."
            )
        complete.append(upto)
        covered += delta_rs.throughs(ViewTables.of(settings, version).base).values()
    cut = cuts.comparable(complete, covered)
    if cut is None:
        raise NotYet(
            f"the versions of view {versions[0].view.name!r} cannot be compared yet: one is complete up to "
            f"{min(complete)}, and the base of another covers {max(covered)}. "
            f"`braid stream {versions[0].view.name} --once` brings them to the same place."
        )
    return cut


def complete_upto(settings: Settings, version: Version) -> datetime | None:
    """The last epoch that a version holds completely; None when its tables are not there, or are being filled."""
    if is_base_lost(ViewTables.of(settings, version)):
        return None
    commits = described(ViewTables.of(settings, version).tail, TailCommit.from_json)
    return next((commit.complete for _, commit in commits), None)
