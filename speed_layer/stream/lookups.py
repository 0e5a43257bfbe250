"""The tables that events are joined to, at their newest version for each micro-batch, and which version that was."""

from dataclasses import dataclass
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
class Lookups:
    """Reads lookups for one micro-batch; `versions` tells what was read."""

    spark: "SparkSession"
    settings: Settings
    versions: dict[str, str]

    def table_of(self, lookup: Lookup) -> "DataFrame":
        if lookup.kind == "delta" and (version := newest_version(lookup.location)) is not None:
            self.versions[lookup.location] = str(version)
            return pinned(self.spark, lookup.location, version)
        if lookup.view is None:
            self.versions[lookup.location] = documents.changed(lookup.location)
        return read_lookup(self.spark, lookup, self.base_of)

    def base_of(self, view: View) -> "DataFrame":
        """What a view has learnt: the numbers of its base, which move only when a base is published."""
        active = deployment.load(self.settings, view.name).active
        base = ViewTables(self.settings, view.name, active.number).base if active else ""
        version = newest_version(base) if active else None
        if active is None or version is None:
            self.versions[view.name] = "nothing yet"
            return empty_base(self.spark)(view)
        self.versions[view.name] = f"v{active.number}@{version}"
        return present(active.view, base_states(active.view, pinned(self.spark, base, version)))
