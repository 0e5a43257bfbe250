"""The tables that events are joined to: at their newest version, as they were at a cut, or at versions by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.check.definitions import empty_base
from braid.define.lookup import Lookup
from braid.define.view import View
from braid.deploy import store as deployment
from braid.deploy.versions import Version
from braid.log.events import read_lookup
from braid.merge.spark import base_states
from braid.runtime import documents
from braid.runtime.settings import Settings
from braid.states.spark import present
from braid.tables.delta_log import newest_version
from braid.tables.spark_tables import pinned
from braid.tables.view_tables import ViewTables

NOTHING_YET = "nothing yet"


@dataclass
class LookupTables:
    """Reads lookups: as they are now, as of the end of a `cut`'s epoch, or as a commit `said` that it had read them.

    `versions` tells what was read. Only Delta tables have a past: a file is read as it is now, and where a table's
    oldest version is younger than the cut, that version is.
    """

    spark: SparkSession
    settings: Settings
    cut: datetime | None = None
    said: Mapping[str, str] | None = None
    versions: dict[str, str] = field(default_factory=dict)

    def table_of(self, lookup: Lookup) -> DataFrame:
        if lookup.view is not None:
            return self._learnt(lookup.view)
        if lookup.kind == "delta" and (version := self._version(lookup.location)) is not None:
            self.versions[lookup.location] = str(version)
            return pinned(self.spark, lookup.location, version)
        self.versions[lookup.location] = documents.changed(lookup.location)
        return read_lookup(self.spark, lookup)

    def _learnt(self, view: View) -> DataFrame:
        """What a view has learnt: the numbers of its base, which move only when a base is published."""
        found = self._base(view.name)
        if found is None:
            self.versions[view.name] = NOTHING_YET
            return empty_base(self.spark)(view)
        deployed, table, version = found
        self.versions[view.name] = f"v{deployed.number}@{version}"
        return present(deployed.view, base_states(deployed.view, pinned(self.spark, table, version)))

    def _base(self, name: str) -> tuple[Version, str, int] | None:
        """The version of a view that is read, its base, and the base's own version."""
        known = deployment.load(self.settings, name)
        if self.said is None:
            deployed = known.active
        else:
            said = self.said.get(name, NOTHING_YET)
            deployed = None if said == NOTHING_YET else known.version(int(said[1:].partition("@")[0]))
        if deployed is None:
            return None
        table = ViewTables.of(self.settings, deployed).base
        version = self._version(table, name)
        return None if version is None else (deployed, table, version)

    def _version(self, table: str, name: str | None = None) -> int | None:
        """The version of a Delta table that is read; None where there is no table."""
        said = "" if self.said is None else self.said.get(name or table, "").rpartition("@")[2]
        if said.isdigit():
            return int(said)
        newest = newest_version(table)
        return newest if newest is None or self.cut is None else self._version_at(table, self.cut)

    def _version_at(self, table: str, cut: datetime) -> int:
        known = DeltaTable.forPath(self.spark, table).history().select("version", "timestamp")
        found = known.agg(
            F.max(
                F.when(F.col("timestamp") < F.lit(cut + self.settings.epoch), F.col("version"))
            ).alias("then"),
            F.min("version").alias("oldest"),
        ).first()  # fmt: skip
        assert found is not None
        return int(found.oldest if found.then is None else found.then)
