"""The tables that events are joined to, as they were at the cut: the same cut gives the same numbers."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from braid.check.definitions import empty_base
from braid.define.lookup import Lookup
from braid.define.view import View
from braid.deploy import store as deployment
from braid.log.events import read_lookup
from braid.merge.spark import base_states
from braid.runtime.settings import Settings
from braid.states.spark import present
from braid.tables import documents
from braid.tables.delta_log import newest_version
from braid.tables.view_tables import ViewTables, pinned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class LookupsAsOf:
    """Reads lookups as of the end of a cut's epoch; `versions` tells what was read.

    Only Delta tables have a past. A file is read as it is now, and so is the oldest version that a table still has,
    where it is younger than the cut.
    """

    spark: "SparkSession"
    settings: Settings
    cut: datetime
    versions: dict[str, str] = field(default_factory=dict)

    def table_of(self, lookup: Lookup) -> "DataFrame":
        if lookup.kind == "delta" and newest_version(lookup.location) is not None:
            version = self._version(lookup.location)
            self.versions[lookup.location] = str(version)
            return pinned(self.spark, lookup.location, version)
        if lookup.view is None:
            self.versions[lookup.location] = documents.changed(lookup.location)
        return read_lookup(self.spark, lookup, self._base_of)

    def _base_of(self, view: View) -> "DataFrame":
        active = deployment.load(self.settings, view.name).active
        base = ViewTables(self.settings, view.name, active.number).base if active else ""
        if active is None or newest_version(base) is None:
            self.versions[view.name] = "nothing yet"
            return empty_base(self.spark)(view)
        version = self._version(base)
        self.versions[view.name] = f"v{active.number}@{version}"
        return present(active.view, base_states(active.view, pinned(self.spark, base, version)))

    def _version(self, table: str) -> int:
        from delta.tables import DeltaTable
        from pyspark.sql import functions as F

        end = self.cut + self.settings.epoch
        known = DeltaTable.forPath(self.spark, table).history().select("version", "timestamp")
        found = known.agg(
            F.max(F.when(F.col("timestamp") < F.lit(end), F.col("version"))).alias("then"),
            F.min("version").alias("oldest"),
        ).first()
        assert found is not None
        return int(found.oldest if found.then is None else found.then)
