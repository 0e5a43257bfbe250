"""The stream of a view: from its source's log to its tail, kept fresh, folded, and started again where it ended."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from braid import log as logs
from braid import view_tables
from braid.commits import newest_commit
from braid.deployment import Version
from braid.errors import BraidError, NotYet
from braid.finality import watermark
from braid.log import Log, last_closed
from braid.logs import Log as Logger
from braid.status import QueryStatus
from braid.storage import Storage
from braid.transactions import newest_version
from braid.view import View
from braid.view_tables import ViewTables
from speed_layer import takeover
from speed_layer.checkpoint import Checkpoint
from speed_layer.fold import Folding
from speed_layer.job import Job, first_line
from speed_layer.lag import Lag
from speed_layer.tail import TailWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = Logger("stream")

# What one micro-batch of a replay reads at most: enough to keep the cores busy, little enough for the memory.
MOST_BYTES = "256m"


@dataclass
class StreamJob(Job):
    """The stream of one version of a view."""

    version: Version = field(kw_only=True)
    tail_writer: TailWriter | None = None
    folding: Folding | None = None
    lag: Lag | None = None

    @property
    def view(self) -> View:
        return self.version.view

    @property
    def tables(self) -> ViewTables:
        return ViewTables(self.settings, self.view.name, self.version.number)

    @property
    def log(self) -> Log:
        return Log(self.view.source, self.settings)

    @property
    def name(self) -> str:
        return f"stream {self.view.name} v{self.version.number}"

    @property
    def definition(self) -> View:
        return self.view

    @property
    def writer(self) -> TailWriter | None:
        return self.tail_writer

    def start(self, once: bool) -> None:
        """A stream that has never run begins with the log's history, as a replay does."""
        if not logs.exists(self.spark, self.log):
            raise NotYet(
                f"view {self.view.name!r} cannot start: the log of source {self.view.source.name!r} is not there "
                f"yet. Run `braid ingest {self.view.source.name}`, or `braid stream --ingest` for both in one."
            )
        self._create_tables()
        storage = Storage(self.spark)
        checkpoint = Checkpoint(storage, self.tables.checkpoint, takeover.advice(self.view))
        checkpoint.verify()
        taken = takeover.find(storage, self.tables)
        writer = TailWriter(
            spark=self.spark, checkpoint=checkpoint, view=self.view, tables=self.tables, log=self.log,
            clock=self.clock, from_day=self.version.from_day, replaces=taken.replaces if taken else None,
        )  # fmt: skip
        writer.begin()
        takeover.refuse_lost_checkpoint(self.view, self.tables, checkpoint, writer.last, taken)
        self.tail_writer, self.folding = writer, Folding(writer)
        self.folding.begin()
        self.lag = Lag(storage, self.log.table)
        events = writer.incoming(self._read(taken))
        stream = events.writeStream.queryName(self.name).foreachBatch(writer.append)
        stream = stream.option("checkpointLocation", self.tables.checkpoint)
        if once:
            stream = stream.trigger(availableNow=True)
        else:
            stream = stream.trigger(processingTime=f"{self.settings.stream_trigger.total_seconds()} seconds")
        self.query = stream.start()
        logger.info("stream started", view=self.view.name, version=self.version.number, tail=self.tables.tail)

    def tend(self) -> None:
        assert self.folding is not None
        self.folding.tend()

    def finish(self, once: bool) -> None:
        """A stream that stops leaves its folds for the next start; one that was run for its result does them."""
        if once and self.folding is not None:
            self.folding.tidy()
        if self.tail_writer is not None:
            self.tail_writer.settle()

    def explain(self, failure: Exception) -> Exception:
        text = str(failure)
        if any(word in text for word in ("checkpoint location", self.tables.checkpoint)):
            return BraidError(
                f"the checkpoint of view {self.view.name!r} cannot be used: {first_line(failure)}. "
                f"{takeover.advice(self.view)}"
            )
        return RuntimeError(first_line(failure))

    def status(self) -> QueryStatus:
        writer, progress = self.tail_writer, self.progress()
        last = writer.last if writer else None
        lag = self.lag.beyond(last.position) if self.lag and last else None
        return QueryStatus(
            name=self.name, kind="stream", view=self.view.name, version=self.version.number,
            source=self.view.source.name,
            state="retrying" if self.error else "running" if self.query else "starting",
            error=str(self.error) if self.error else None, retry_in=self.retry_in,
            batch=last.batch if last else None,
            rows_per_second=progress.get("processedRowsPerSecond"),
            batch_ms=progress.get("durationMs", {}).get("triggerExecution"),
            lag_events=lag[0] if lag else None, lag_seconds=lag[1] if lag else None,
            events=writer.counts.events if writer else 0,
            late=writer.counts.late if writer else 0,
            revised=writer.counts.revised if writer else 0,
            files=self.folding.files.total() if self.folding else None,
            epoch=last.epoch if last else None,
            watermark=watermark(self.view, writer.seen) if writer else None,
        )  # fmt: skip

    def _create_tables(self) -> None:
        """With the replay's cut: all of the log up to it is stored under it, in whatever order it is read."""
        if newest_version(Storage(self.spark), self.tables.tail) is None:
            newest = newest_commit(self.spark, self.log.table)
            cut = last_closed(newest, self.settings.epoch) if newest else None
            view_tables.create(self.spark, self.tables, self.view, cut)

    def _read(self, taken: "takeover.Takeover | None") -> "DataFrame":
        reader = self.spark.readStream.format("delta").option("maxBytesPerTrigger", MOST_BYTES)
        if taken is not None:
            reader = reader.option("startingVersion", taken.version)
        return reader.load(self.log.table)
