"""What every exactly-once writer of micro-batches shares: its lock, how it stops, how a refusal reaches a person."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from speed_layer.jobs.checkpoint import Checkpoint, Plan


class Stopping(Exception):
    """Ends a micro-batch that had not begun to write, because its query is being stopped."""


@dataclass(kw_only=True)
class BatchWriter(ABC):
    """The only writer of one table. The lock keeps its micro-batches apart from whatever else it commits."""

    spark: SparkSession
    checkpoint: Checkpoint
    batches: int = 0
    failure: Exception | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    stopping: threading.Event = field(default_factory=threading.Event)
    in_doubt: bool = False

    def append(self, rows: DataFrame, batch: int) -> None:
        """One micro-batch, for `foreachBatch`."""
        # Whoever stops the query holds the lock and waits for this thread: it must not wait in turn.
        while not self.lock.acquire(timeout=0.05):
            if self.stopping.is_set():
                raise Stopping
        try:
            query = str(self.spark.sparkContext.getLocalProperty("sql.streaming.queryId"))
            self.write_batch(rows, query, batch, self.checkpoint.plan(batch))
        except Exception as failure:
            # Spark passes an error on as a text of its own: whoever explains the failure needs the error itself.
            self.failure = failure
            raise
        finally:
            self.lock.release()

    @abstractmethod
    def write_batch(self, rows: DataFrame, query: str, batch: int, plan: Plan) -> None:
        """Commits a batch that is not there yet, and only then; the lock is held."""

    @contextmanager
    def committing(self) -> Iterator[None]:
        """A commit that fails may have been made all the same: nothing more may be said until it was looked up.

        A commit after it would repeat the batch before it as the newest, and the next start would append it twice.
        """
        self.in_doubt = True
        yield
        self.in_doubt = False
