"""Small DataFrames that are made in the driver: PySpark's own way starts Python workers, also for no rows at all."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


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
