"""What the stream of a derived source missed, computed from its inputs' logs, whole, and handed to ingest's inbox.

Everything is judged at one cut: the commits of the inputs' logs that the stream has read. A pair of events that are
both before it, and that the derived log lacks, will never be drawn by the stream: batch draws it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.define.derived.base import ID, with_inputs
from braid.define.derived.join import SIDES, JoinedSource
from braid.define.schema import quote
from braid.define.source import Source
from braid.log import contents as logs
from braid.log import inbox
from braid.log.derived import PATTERN, Correction, DerivedPlaces, refuse_other_definition
from braid.log.events import first_copies
from braid.log.joined import as_lines, joined, side
from braid.log.table import MADE_BY_BATCH, Log
from braid.runtime import documents
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings
from braid.states.spark_calendar import ONE_DAY, on_days

logger = Logger("batch")


def correct(spark: Callable[[], SparkSession], settings: Settings, sources: Iterable[Source]) -> int:
    """Hands in what the streams of derived sources among these missed; how many events. Spark only if one is due."""
    added = 0
    for source in with_inputs(sources):
        if isinstance(source, JoinedSource) and _is_due(source, settings):
            with inbox.alone_with(Log(source, settings)):
                # Whoever held it before may have done the same.
                added += _correct(spark(), source, settings) if _is_due(source, settings) else 0
    return added


def truth(
    spark: SparkSession,
    join: JoinedSource,
    settings: Settings,
    versions: Mapping[str, int],
    since: int | None = None,
) -> DataFrame:
    """The pairs that there are up to these commits, with times and epochs of both; of days that changed since."""
    rows = {source.name: rows_upto(spark, source, settings, versions) for source in join.inputs}
    if since is not None:
        new = F.col("_epoch") >= F.timestamp_micros(F.lit(since))
        rows = _around(join, rows, {name: _days(one.where(new)) for name, one in rows.items()})
    sides, more = [], []
    for which, source in zip(SIDES, join.inputs, strict=True):
        sides.append(side(join, which, first_copies(rows[source.name], source), more=("_epoch",)))
        more += [
            F.col(f"{which}._epoch").alias(f"_{which}_epoch"),
            F.col(f"{which}.{quote(source.event_time)}").alias(f"_{which}_time"),
        ]
    return joined(join, sides[0], sides[1], *more).dropDuplicates([ID])


def rows_upto(
    spark: SparkSession, source: Source, settings: Settings, versions: Mapping[str, int]
) -> DataFrame:
    """The accepted rows of an input as of a commit of its log."""
    reader = spark.read.format("delta").option("versionAsOf", max(versions[source.name], 0))
    return reader.load(Log(source, settings).table).where("_error is null")


def on_the_way(spark: SparkSession, log: Log) -> DataFrame:
    """The ids of what ingest has not read yet, or has read since: drawn by the stream, or handed in by batch."""
    events = DerivedPlaces(log).events
    made = inbox.everything(spark, log).select(
        F.from_json(F.unbase64("value").cast("string"), f"{ID} string")[ID].alias(ID)
    )
    if not any(name.endswith(PATTERN.removeprefix("*")) for name in documents.names(events)):
        return made.distinct()
    # Ingest deletes a file that it has read, maybe just now.
    reader = spark.read.schema(f"{ID} string").option("ignoreMissingFiles", True)
    return made.unionByName(reader.option("pathGlobFilter", PATTERN).json(events)).distinct()


def _correct(spark: SparkSession, join: JoinedSource, settings: Settings) -> int:
    log = Log(join, settings)
    places = DerivedPlaces(log)
    derivation, before = places.derivation(), places.correction()
    assert derivation is not None, "it is due"
    refuse_other_definition(join, derivation)
    epoch = _newest_epoch(spark, join, settings, derivation.versions)
    with kept(on_the_way(spark, log)) as waiting:
        missing = truth(spark, join, settings, derivation.versions, before.epoch if before else None)
        missing = missing.join(waiting, on=ID, how="left_anti")
        if logs.exists(spark, log):
            missing = missing.join(logs.read(spark, log).select(ID), on=ID, how="left_anti")
        lines = as_lines(join, missing).select(
            ID,
            F.lit(MADE_BY_BATCH).cast("bigint").alias("origin_partition"),
            F.lit(0).cast("bigint").alias("origin_offset"),
            F.encode("line", "UTF-8").alias("value"),
        )
        with kept(lines) as found:
            added = inbox.put(spark, log, found, [ID])
    places.keep_correction(Correction(derivation.versions, epoch))
    logger.info("what the stream missed was handed to ingest", source=join.name, events=added)
    return added


@contextmanager
def kept(rows: DataFrame) -> Iterator[DataFrame]:
    """Rows that are computed now, once: what is read after them is newer."""
    held = rows.persist()
    try:
        held.count()
        yield held
    finally:
        held.unpersist()


def _is_due(join: JoinedSource, settings: Settings) -> bool:
    """Whether the stream has read more than batch has looked at."""
    places = DerivedPlaces(Log(join, settings))
    derivation, before = places.derivation(), places.correction()
    return derivation is not None and (before is None or before.versions != derivation.versions)


def _newest_epoch(
    spark: SparkSession, join: JoinedSource, settings: Settings, versions: Mapping[str, int]
) -> int | None:
    """In microseconds. Epochs never decrease: what either log gains is of the older one of the two newest, or later."""
    found = [
        rows_upto(spark, source, settings, versions).agg(F.unix_micros(F.max("_epoch"))).first()
        for source in join.inputs
    ]
    newest = [row[0] for row in found if row is not None and row[0] is not None]
    return min(newest) if len(newest) == len(found) else None


def _days(rows: DataFrame) -> set[date]:
    return {row.day for row in rows.select("day").distinct().collect()}


def _around(
    join: JoinedSource, rows: dict[str, DataFrame], changed: Mapping[str, set[date]]
) -> dict[str, DataFrame]:
    """The rows that can be in a pair with a new one: whole days of the side that gives the time, and around them."""
    timed = join.timed.name
    (other,) = rows.keys() - {timed}
    reach = join.span[1] // ONE_DAY + 2
    days = changed[timed] | _widened(changed[other], reach)
    if not days:
        return {name: one.where("false") for name, one in rows.items()}
    return {timed: rows[timed].where(on_days(days)), other: rows[other].where(on_days(_widened(days, reach)))}


def _widened(days: Iterable[date], by: int) -> set[date]:
    """Days with their neighbours: zones differ by up to a day, and a pair may span several."""
    return {day + timedelta(days=n) for day in days for n in range(-by, by + 1)}
