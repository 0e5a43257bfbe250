"""A few made-up events per source, on which SQL is run before real ones meet it."""

from pyspark.sql import DataFrame, SparkSession

from braid.define.schema import FLOATS, INTEGERS, is_decimal, quote
from braid.define.source import Source

_ROWS = 4
_NUMBERS = ("0", "1", "404")
_VALUES = {
    "boolean": ("false", "true", "true"),
    "string": ("''", "'a'", "'/a-b.html?c=d e'"),
    "binary": ("X''", "X'00'", "X'FF'"),
    "date": ("date'1970-01-01'", "date'2000-02-29'", "date'2024-12-31'"),
}
_TIMES = ("'1970-01-01 00:00:00'", "'2000-02-29 12:30:00'", "'2024-12-31 23:59:59.999'")


def probe_events(spark: SparkSession, source: Source) -> DataFrame:
    """Events of nulls, of empty values, of ordinary and of odd ones.

    They are literals, so Spark computes them in the driver while it plans: no job runs, and an error is not logged
    as a failed task.
    """
    columns = [_choices(type_name) for type_name in source.columns.values()]
    rows = (", ".join(options[row] for options in columns) for row in range(_ROWS))
    names = ", ".join(map(quote, source.columns))
    return spark.sql(f"select * from values {', '.join(f'({row})' for row in rows)} as probe({names})")


def _choices(type_name: str) -> tuple[str, ...]:
    return tuple(f"cast({value} as {type_name})" for value in ("null", *_values(type_name)))


def _values(type_name: str) -> tuple[str, ...]:
    if type_name in INTEGERS or type_name in FLOATS or is_decimal(type_name):
        # A small type cannot hold every number: what does not fit is a null there.
        return tuple(f"try_cast({number} as {type_name})" for number in _NUMBERS)
    if type_name.startswith("timestamp"):
        return _TIMES
    if type_name.startswith("array<"):
        return ("array()", "array()", "array(null)")
    if type_name.startswith("map<"):
        return ("map()", "map()", "map()")
    return _VALUES.get(type_name, ("null",) * 3)
