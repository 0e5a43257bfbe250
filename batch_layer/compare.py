"""What is served of a day against an independent recompute of it at the same cut: the proof of a publish."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from batch_layer.days import read_days
from batch_layer.plan import ALL, Days, plan
from braid.define.source import Source
from braid.define.view import View
from braid.deploy import store as deployment
from braid.log.first_copies import first_copies
from braid.log.lookups import LookupTables
from braid.merge.spark import served_states
from braid.parity import Parity, compare_states
from braid.recompute import truth
from braid.runtime.settings import Settings
from braid.tables.view_tables import ViewTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def compare(
    spark: "SparkSession",
    settings: Settings,
    views: Sequence[View],
    days: Days = ALL,
    cut: datetime | None = None,
) -> list[Parity]:
    """For each view and cut that its published days have, whether what is served up to it is what the log gives."""
    found = []
    for source in plan(settings, views, days, cut):
        published = [day for day in source.days if day.through is not None]
        published.sort(key=lambda day: (day.view, day.through or day.cut))
        for (name, through), group in groupby(published, key=lambda day: (day.view, day.through or day.cut)):
            found.append(_compared(spark, settings, name, through, [day.day for day in group]))
    return found


def _compared(
    spark: "SparkSession", settings: Settings, name: str, cut: datetime, days: list[date]
) -> Parity:
    from pyspark.sql import functions as F

    active = deployment.load(settings, name).active
    assert active is not None
    tables = ViewTables(settings, name, active.number)
    served = served_states(spark, active.view, tables, cut).where(F.col("day").isin(days))
    right = truth(spark, settings, active.view, cut, days)
    parity = Parity(name, active.number, "a recompute of the log", cut)
    return compare_states(parity, active.view, served, active.view, right)


@dataclass(frozen=True)
class Recomputing:
    """How this layer reads a log, for others to compare their numbers with."""

    spark: "SparkSession"
    settings: Settings

    def first_copies(self, rows: "DataFrame", source: Source) -> "DataFrame":
        return first_copies(rows, source)

    def lookups_at(self, cut: datetime) -> LookupTables:
        return LookupTables(self.spark, self.settings, cut)

    def published(self, tables: ViewTables) -> dict[date, datetime]:
        """Day -> the cut at which it was published last."""
        return {
            day: record.publish.cut for day, record in read_days(tables).items() if record.publish is not None
        }
