"""Reads a log for the questions that are not about groups: when events came, and what became of the others."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braid.errors import BraidError
from braid.log.lookups import LookupTables
from braid.log.table import Log, read
from braid.runtime.frames import timestamp
from braid.tables.commits import newest_commit
from braid.tables.delta_rs import Pinned, open_table, pin
from serving_layer.accuracy.explain.rows import placed_events
from serving_layer.accuracy.explain.standing import Standing
from serving_layer.accuracy.lateness.facts import narrow_columns, needs_spark
from serving_layer.accuracy.report.values import LogCounts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def pinned_log(log: Log) -> Pinned:
    table = open_table(log.table)
    if table is None:
        raise BraidError(
            f"the log of source {log.source.name!r} is empty: run `braid ingest {log.source.name}` first."
        )
    return pin(table)


@contextmanager
def narrow_rows(spark: "SparkSession", known: Standing, log: Log, arrival: str | None) -> Iterator[Any]:
    """The log itself; or where only Spark can filter, the events that are left, in a file."""
    import pyarrow.dataset as ds

    view = known.version.view
    if not needs_spark(view):
        yield pinned_log(log).dataset
        return
    with tempfile.TemporaryDirectory(prefix="braid-events-") as folder:
        # The driver reads them again: with a cluster, it needs a folder that its executors share.
        place = str(Path(folder) / "events")
        _events_with_places(spark, known, log, arrival).write.parquet(place)
        yield ds.dataset(place, format="parquet")


def _events_with_places(spark: "SparkSession", known: Standing, log: Log, arrival: str | None) -> "DataFrame":
    from pyspark.sql import functions as F

    view = known.version.view
    # Days after the last one are read too: what happens there moves the watermark.
    rows = read(spark, log).where(f"_error is null and day >= date'{known.span.first}'")
    extra = [name for name in (view.source.event_id, arrival) if name and name not in view.keys]
    events = placed_events(view, rows, LookupTables(spark, log.settings, known.newest_cut).table_of, *extra)
    wanted = narrow_columns(view, arrival)
    packed = {"_partition", "_offset", "_arrival", "_epoch", *extra}
    return events.select(
        *(
            F.lit(None).cast("string").alias(name)
            if name == "_error"
            else F.col(f"_place.`{name}`").alias(name)
            if name in packed
            else F.col(f"`{name}`")
            for name in wanted
        )
    )


def log_counts(spark: "SparkSession", log: Log, known: Standing) -> LogCounts:
    """Of the whole log up to the cut: a rejected record has no day of its own."""
    from pyspark.sql import functions as F

    upto = read(spark, log).where(f"_epoch <= {timestamp(known.newest_cut)}")
    reasons: Mapping[str | None, int] = {
        row.reason: row["count"]
        for row in upto.groupBy(F.substring_index("_error", ":", 1).alias("reason")).count().collect()
    }
    newest = newest_commit(spark, log.table)
    rejected = {reason: number for reason, number in sorted(reasons.items(), key=str) if reason is not None}
    accepted = reasons.get(None, 0)
    distinct = accepted
    if log.source.event_id is not None:
        identity = F.col(f"`{log.source.event_id}`")
        per_id = upto.where("_error is null").agg(
            F.count_if(identity.isNull()).alias("without"), F.count_distinct("day", identity).alias("ids")
        ).first()  # fmt: skip
        assert per_id is not None
        distinct = per_id.without + per_id.ids
    return LogCounts(
        accepted, sum(rejected.values()), rejected, newest.duplicates if newest else 0, accepted - distinct
    )
