"""Checks the table behind a lookup: that it is there, has the columns, and has one row for each key."""

from collections.abc import Callable, Iterator

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from braid.define.lookup import Lookup
from braid.define.names import suggest
from braid.define.schema import INTEGERS, quote
from braid.errors import BraidError
from braid.log.events import first_line, one_row_per_key, types_of

_EXAMPLES = 3


def lookup_problems(
    lookup: Lookup, read: Callable[[Lookup], DataFrame], event_types: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """(message, fix) for each thing that is wrong with the table."""
    try:
        table = read(lookup)
    except BraidError as error:
        yield str(error), "write the table first, or mend its path or format"
        return
    missing = [name for name in (*lookup.keys, *lookup.added) if name not in table.columns]
    for name in missing:
        yield f"the table has no column {name!r}", suggest(name, table.columns, "columns")
    if missing:
        return
    for key in lookup.keys:
        here, there = event_types[key], types_of(table)[key]
        if not _comparable(here, there):
            fix = "give both the same type: change the table, or the source's schema"
            yield f"the event's {key!r} is {here} and the table's is {there}", fix
            return
    try:
        repeated = _repeated_keys(lookup, table, event_types)
    except PySparkException as error:
        yield first_line(error), "look up columns with one value each (no maps)"
        return
    if repeated:
        shown = "; ".join(repeated)
        fix = "keep one row for each key: other rows are never used"
        yield f"keys that the table has several times: {shown}", fix


def _repeated_keys(lookup: Lookup, table: DataFrame, event_types: dict[str, str]) -> list[str]:
    """Examples of keys that occur more than once, as the event would write them."""
    one_row_per_key(lookup, table, event_types)
    if lookup.view is not None:
        return []
    keys = [f"try_cast({quote(key)} as {event_types[key]}) as {quote(key)}" for key in lookup.keys]
    counted = (
        table.selectExpr(*keys).dropna().groupBy(*map(quote, lookup.keys)).agg(F.count("*").alias("_rows"))
    )
    repeated = counted.where("_rows > 1").orderBy(F.desc("_rows"), *map(quote, lookup.keys))
    return [
        f"{', '.join(f'{key} = {row[key]!r}' for key in lookup.keys)} ({row['_rows']} rows)"
        for row in repeated.limit(_EXAMPLES).collect()
    ]


def _comparable(here: str, there: str) -> bool:
    """Whether a key of the table can be read as the event's type without changing which keys are equal."""
    exact = INTEGERS | {"string"}
    return there in (here, "string") or (here in exact and there in exact)
