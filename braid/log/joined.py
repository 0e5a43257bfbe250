"""The events of a join from the rows of its inputs' logs: one function, for what streams and for what lies still."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from braid.define.derived.base import ID, TIME
from braid.define.derived.join import SIDES, JoinedSource
from braid.define.schema import is_decimal, quote
from braid.define.source import Source
from braid.log.events import as_one

# A time keeps its microseconds; without this they would be cut off.
_MICROS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_WRITTEN = {"timestampFormat": f"{_MICROS}XXX", "timestampNTZFormat": _MICROS}
_DIGITS = 32


def side(join: JoinedSource, which: str, log: DataFrame, more: Sequence[str] = ()) -> DataFrame:
    """The accepted events of one side with what a pair needs of them: the less there is, the less is remembered."""
    source: Source = getattr(join, which)
    columns = [F.col(quote(name)) for name in (*join.used(which), *more)]
    return log.where("_error is null").select(_identity(source).alias("_identity"), *columns)


def joined(join: JoinedSource, left: DataFrame, right: DataFrame, *more: Column) -> DataFrame:
    """The pairs of two sides. Their ids are functions of the ids of both, so that a pair is one event for ever."""
    mine, other = (
        F.col(f"{which}.{quote(source.event_time)}") for which, source in zip(SIDES, join.inputs, strict=True)
    )
    low, high = join.span
    same = (other >= mine + F.lit(low)) & (other <= mine + F.lit(high))
    for one, another in join.on.items():
        same &= F.col(f"left.{quote(one)}") == F.col(f"right.{quote(another)}")
    pairs = left.alias("left").join(right.alias("right"), on=same, how="inner")
    columns = [F.expr(as_one(sql)).cast(join.columns[name]).alias(name) for name, sql in join.select.items()]
    time = (mine if join.time == "left" else other).alias(TIME)
    return pairs.select(_pair_id().alias(ID), time, *columns, *more)


def as_lines(join: JoinedSource, events: DataFrame) -> DataFrame:
    """(id, line): each event as the line of JSON that ingest reads. Decimals are texts, which are never rounded."""
    fields = [
        F.col(quote(name)).cast("string").alias(name) if is_decimal(kind) else F.col(quote(name))
        for name, kind in join.columns.items()
    ]
    return events.select(F.col(ID), F.to_json(F.struct(*fields), _WRITTEN).alias("line"))


def _identity(source: Source) -> Column:
    """An event by its id and day, for which copies are looked for; one without an id by its place, its own for ever."""
    place = F.concat(F.lit("\u0000"), "_partition", F.lit(":"), "_offset")
    if source.event_id is None:
        return place
    named = F.concat(F.col("day").cast("string"), F.lit(" "), F.col(quote(source.event_id)).cast("string"))
    return F.coalesce(named, place)


def _pair_id() -> Column:
    """The length of the first one says where the second one begins."""
    left, right = F.col("left._identity"), F.col("right._identity")
    both = F.concat(F.length(left).cast("string"), F.lit(":"), left, right)
    return F.substring(F.sha2(both, 256), 1, _DIGITS)
