"""What a comparison needs of the batch layer, which this layer does not import: the command line hands it over."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Protocol

from braid.define.lookup import Lookup
from braid.define.source import Source
from braid.tables.view_tables import ViewTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LookupTables(Protocol):
    """Tables that events are joined to, and which versions of them were read."""

    versions: dict[str, str]

    def table_of(self, lookup: Lookup) -> "DataFrame": ...


class Batch(Protocol):
    """How the batch layer reads the log: every event once, and lookups as they were at the cut."""

    def first_copies(self, rows: "DataFrame", source: Source) -> "DataFrame":
        """Rows of a log without the copies of an event that came later."""

    def lookups_at(self, cut: datetime) -> LookupTables:
        """The tables that events are joined to, as they were at a cut."""

    def published(self, tables: ViewTables) -> Mapping[date, datetime]:
        """Day -> the cut at which the batch layer published it last."""
