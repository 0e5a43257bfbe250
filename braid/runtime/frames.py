"""Days and moments for Spark: small frames made in the driver without Python workers, and texts of conditions."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ONE_DAY = timedelta(days=1)


def no_rows(spark: "SparkSession", schema: "StructType") -> "DataFrame":
    """A frame without rows, which Spark knows to be empty before it runs anything."""
    from pyspark.sql import functions as F

    nothing = [F.lit(None).cast(column.dataType).alias(column.name) for column in schema]
    return spark.range(1).where(F.lit(False)).select(*nothing)


def days_and_moments(spark: "SparkSession", moments: Mapping[date, datetime], name: str) -> "DataFrame":
    """A row of (day, moment) for each; there must be one."""
    rows = (f"(date'{day}', {timestamp(moment)})" for day, moment in moments.items())
    return spark.sql(f"select * from values {', '.join(rows)} as moments(day, {name})")


def timestamp(moment: datetime) -> str:
    """A moment as an SQL literal, for a session in UTC."""
    return f"timestamp'{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"


def on_days(days: Iterable[date]) -> str:
    """A condition that prunes partitions. Days in a row are one range, however many there are."""
    ranges: list[tuple[date, date]] = []
    for day in sorted(days):
        if ranges and day - ranges[-1][1] == ONE_DAY:
            ranges[-1] = ranges[-1][0], day
        else:
            ranges.append((day, day))
    return f"({' or '.join(map(_between, ranges))})"


def _between(days: tuple[date, date]) -> str:
    first, last = days
    # Not `between`: as a condition of what is replaced, Delta does not know the word.
    return f"day = date'{first}'" if first == last else f"(day >= date'{first}' and day <= date'{last}')"
