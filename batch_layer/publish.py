"""Puts a day into a view's base in one commit: readers have the old day or the new one, and its cut never goes back."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING

from braid.define.view import View
from braid.runtime.lock import locked
from braid.tables.commits import BaseCommit
from braid.tables.delta_rs import open_table, pin
from braid.tables.view_tables import ViewTables, base_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A stream that folds into the same base may be in the way; its folds are short.
ATTEMPTS = 5
# How Delta's names for all kinds of conflicts between two commits begin.
CONFLICT = "DELTA_CONCURRENT"


def publish(
    spark: "SparkSession", tables: ViewTables, view: View, day: date, states: "DataFrame", cut: datetime
) -> datetime:
    """Replaces a day by its states. Returns the cut that it covers then: a later one may be there."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    for attempt in range(ATTEMPTS):
        with _alone(tables):
            present = throughs(tables).get(day)
            if present is not None and present > cut:
                return present
            try:
                _replace(tables, day, _with_marker(spark, view, day, states, cut), cut)
                return cut
            except (Py4JJavaError, PySparkException) as error:
                if CONFLICT not in str(error) or attempt == ATTEMPTS - 1:
                    raise
    raise AssertionError


def throughs(tables: ViewTables) -> dict[date, datetime]:
    """Day -> the last epoch that its published states cover, without Spark."""
    table = open_table(tables.base)
    return {} if table is None else pin(table).throughs()


def _replace(tables: ViewTables, day: date, rows: "DataFrame", cut: datetime) -> None:
    writer = rows.coalesce(1).write.format("delta").mode("overwrite")
    writer = writer.option("replaceWhere", f"day = date'{day}'")
    writer.option("userMetadata", BaseCommit(cut, "batch").to_json()).save(tables.base)


def _with_marker(
    spark: "SparkSession", view: View, day: date, states: "DataFrame", cut: datetime
) -> "DataFrame":
    """A day without events is published too, as one row that carries its cut."""
    from pyspark.sql import functions as F

    if not states.isEmpty():
        return states
    types = {column.name: column.dataType for column in states.schema}
    known = {"day": F.lit(day), "through": F.lit(cut)}
    return spark.range(1).select(
        *(known.get(name, F.lit(None)).cast(types[name]).alias(name) for name in base_columns(view))
    )


@contextmanager
def _alone(tables: ViewTables) -> Iterator[None]:
    """One publisher of a base at a time, so that a cut that is looked up is still the newest when it is replaced.

    A shared BRAID_HOME has no such lock. Delta refuses the second of two commits to one day all the same; only one
    that begins between the look and the other's commit could take the cut back, and the day would be stale again.
    """
    if not tables.settings.home_is_local:
        yield
        return
    file = tables.settings.local_home() / "drivers" / f"publish-{tables.view}-v{tables.number}"
    with locked(file):
        yield
