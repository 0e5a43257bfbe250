"""The live edge: what the next commits of a log bring to all views that have read up to them, by one Spark job."""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from braid.log.contents import read_commits
from braid.log.lookups import LookupTables
from braid.tables.delta_log import Transaction
from speed_layer.stream.counts import rows_in
from speed_layer.stream.states import LiveBatch, collected
from speed_layer.stream.tail import SMALL, TailWriter

# More rows than this, of all views of a job together, do not pass through the driver at once.
LARGE = 200_000


def read_together(
    writers: Sequence[TailWriter], commits: Sequence[Transaction]
) -> list[LiveBatch | Exception]:
    """What commits bring to each of several views of their log, in the same order; or why they could not be read.

    Their states are computed by one job. If that fails, half of the views are tried at a time, so that only those have
    failed that fail by themselves.
    """
    log, spark, arrived = writers[0].log, writers[0].spark, rows_in(commits)
    if arrived is None or arrived > LARGE:
        return [LiveBatch(LookupTables(spark, log.settings), is_large=True) for _ in writers]
    rows = read_commits(spark, log, commits) if arrived else None
    if rows is not None and arrived <= SMALL:
        rows = rows.coalesce(1)
    batches = [_prepared(writer, rows) for writer in writers]
    ready = [batch for batch in batches if isinstance(batch, LiveBatch) and batch.frame is not None]
    most = max(1, LARGE // max(1, arrived))
    portions = (ready[first : first + most] for first in range(0, len(ready), most))
    done = iter([batch for portion in portions for batch in _computed(portion)])
    return [next(done) if batch in ready else batch for batch in batches]


def follow(writer: TailWriter, commits: Sequence[Transaction]) -> int | None:
    """The next commits of the log into one tail; how many rows they brought, where that is known."""
    (read,) = read_together([writer], commits)
    if isinstance(read, Exception):
        raise read
    return writer.take(commits, read)


def _computed(batches: Sequence[LiveBatch]) -> list[LiveBatch | Exception]:
    try:
        states = collected([batch.frame for batch in batches if batch.frame is not None])
    except Exception as failure:
        if len(batches) == 1:
            return [failure]
        half = len(batches) // 2
        return [*_computed(batches[:half]), *_computed(batches[half:])]
    return [replace(batch, states=found) for batch, found in zip(batches, states, strict=True)]


def _prepared(writer: TailWriter, rows: DataFrame | None) -> LiveBatch | Exception:
    try:
        return writer.prepared(rows)
    except Exception as failure:
        return failure
