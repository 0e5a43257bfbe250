"""The tables of one version of a view: its tail and its base, where they live and what they look like."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from braid.define.fingerprint import state_fingerprint
from braid.define.view import View
from braid.define.windows import Session
from braid.errors import BraidError
from braid.runtime.settings import Settings
from braid.states import state_columns
from braid.tables import delta_rs
from braid.tables.delta_log import newest_version
from braid.writing import may_begin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

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


def create(spark: "SparkSession", tables: ViewTables, view: View, replay_cut: datetime | None) -> None:
    """Creates what is not there yet. The replay's cut is fixed with the tail, before a query has read anything."""
    from delta.tables import DeltaTable

    refuse_second_tail(tables, replay_cut)
    types = _types(spark, view)
    properties = PROPERTIES | {FINGERPRINT: state_fingerprint(view)}
    if replay_cut is not None:
        properties[REPLAY_CUT] = replay_cut.isoformat()
    for location, columns, by in (
        (tables.base, base_columns(view), "day"),
        # Last: where there is a tail, everything is there.
        (tables.tail, tail_columns(view), "epoch"),
    ):
        if DeltaTable.isDeltaTable(spark, location):
            continue
        table = DeltaTable.create(spark).location(location).partitionedBy(by)
        for name in columns:
            table = table.addColumn(name, types[name])
        for key, value in properties.items():
            table = table.property(key, value)
        table.execute()


def replay_cut(tables: ViewTables) -> datetime | None:
    """What was fixed when the tail was created."""
    cut = delta_rs.properties(tables.tail).get(REPLAY_CUT)
    return datetime.fromisoformat(cut) if cut else None


def refuse_second_tail(tables: ViewTables, replay_cut: datetime | None) -> None:
    """A tail without a batch, beside a base that another tail was folded into: history would be counted twice."""
    covered = delta_rs.throughs(tables.base)
    if not may_begin(covered.values(), replay_cut):
        raise BraidError(
            f"view {tables.view!r} cannot begin anew: its tail {tables.tail} is gone or empty, but its base holds "
            f"{len(covered)} days, and the log's history would be counted twice. Restore the tail with its checkpoint, "
            f"or build a new version from the log: `braid kappa replay {tables.view}`."
        )


def pinned(spark: "SparkSession", location: str, version: int | None = None) -> "DataFrame":
    """The table as it is now, however long the answer takes and whoever writes meanwhile."""
    version = newest_version(location) if version is None else version
    return spark.read.format("delta").option("versionAsOf", version).load(location)


def throughs(base: "DataFrame") -> dict[date, datetime]:
    """Day -> the last epoch that it covers."""
    from pyspark.sql import functions as F

    rows = base.groupBy("day").agg(F.unix_micros(F.max("through")).alias("through")).collect()
    return {row.day: datetime.fromtimestamp(row.through / 1_000_000, UTC) for row in rows}


def _types(spark: "SparkSession", view: View) -> "dict[str, DataType]":
    """Spark itself says which types the states of this view have."""
    from pyspark.sql.types import LongType, TimestampType

    # Read only where Spark runs already: those who serve these tables do without it.
    from braid.check.definitions import compiled_states

    states = {column.name: column.dataType for column in compiled_states(spark, view).schema}
    return states | {"epoch": TimestampType(), "through": TimestampType(), LATE: LongType()}
