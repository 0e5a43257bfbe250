"""The live edge: what the next commits of a log bring to all views that have read up to them, by one Spark job."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pyspark.sql import DataFrame

from braid.define.fingerprint import used_lookups
from braid.log.contents import read_commits
from braid.log.lookups import LookupTables
from braid.runtime.logging import Logger
from braid.tables.delta_log import Transaction
from speed_layer.stream.counts import rows_in
from speed_layer.stream.states import LiveBatch, Union
from speed_layer.stream.tail import SMALL, TailWriter

logger = Logger("stream")

# More rows than this, of all views of a job together, do not pass through the driver at once.
LARGE = 200_000


@dataclass
class LiveReader:
    """Reads commits of a log for several views by one job, and keeps its plan.

    At the next micro-batch the same views read other files: nothing of the plan is looked up again.
    """

    _writers: Sequence[TailWriter] = ()
    _rows: DataFrame | None = None
    _union: Union | None = None

    def __call__(
        self, writers: Sequence[TailWriter], commits: Sequence[Transaction]
    ) -> list[LiveBatch | Exception]:
        """What commits bring to each view, in the same order; or why they could not be read.

        If the job fails, half of the views are tried at a time, so that only those have failed that fail by
        themselves.
        """
        log, spark, arrived = writers[0].log, writers[0].spark, rows_in(commits)
        if arrived is None or arrived > LARGE:
            return [LiveBatch(LookupTables(spark, log.settings), is_large=True) for _ in writers]
        if not arrived:
            return [_prepared(writer, None) for writer in writers]
        rows = read_commits(spark, log, commits)
        if arrived > SMALL:
            return self._anew(writers, rows, max(1, LARGE // arrived))
        rows = rows.coalesce(1)
        return self._again(writers, rows) or self._anew(writers, rows, len(writers))

    def _anew(self, writers: Sequence[TailWriter], rows: DataFrame, most: int) -> list[LiveBatch | Exception]:
        """With a plan of its own for each so many views."""
        batches = [_prepared(writer, rows) for writer in writers]
        ready = [batch for batch in batches if isinstance(batch, LiveBatch)]
        portions = [ready[first : first + most] for first in range(0, len(ready), most)]
        if len(ready) == len(writers) and len(portions) == 1 and not any(map(_changes, writers)):
            self._writers, self._rows = tuple(writers), rows
            self._union = Union.of([batch.frame for batch in ready if batch.frame is not None])
        done = iter([batch for portion in portions for batch in _computed(portion)])
        return [next(done) if isinstance(batch, LiveBatch) else batch for batch in batches]

    def _again(self, writers: Sequence[TailWriter], rows: DataFrame) -> list[LiveBatch | Exception] | None:
        """By the plan of the micro-batch before; None where it was another one's, or fails: anew, it is seen whose."""
        same = len(writers) == len(self._writers) and all(map(operator.is_, writers, self._writers))
        if not same or self._union is None or self._rows is None:
            return None
        try:
            states = self._union.split(_over(self._union.frame, self._rows, rows).toArrow())
        except Exception as failure:
            logger.debug("a kept plan failed", error=str(failure))
            self._writers = ()
            return None
        spark, settings = writers[0].spark, writers[0].log.settings
        return [LiveBatch(LookupTables(spark, settings), states=found) for found in states]


def follow(writer: TailWriter, commits: Sequence[Transaction]) -> int | None:
    """The next commits of the log into one tail; how many rows they brought, where that is known."""
    (read,) = LiveReader()([writer], commits)
    if isinstance(read, Exception):
        raise read
    return writer.take(commits, read)


def _computed(batches: Sequence[LiveBatch]) -> list[LiveBatch | Exception]:
    try:
        union = Union.of([batch.frame for batch in batches if batch.frame is not None])
        states = union.split(union.frame.toArrow())
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


def _changes(writer: TailWriter) -> bool:
    """Whether its plan differs from batch to batch: a table that it is joined to may have a newer version."""
    return bool(used_lookups(writer.view))


def _over(kept: DataFrame, old: DataFrame, fresh: DataFrame) -> DataFrame:
    """A frame that was put together over one commit's files, over another's."""
    spark = fresh.sparkSession
    plans = cast(Any, spark)._jvm.braid.KeptPlan
    return DataFrame(plans.over(*(cast(Any, one)._jdf for one in (kept, old, fresh))), spark)
