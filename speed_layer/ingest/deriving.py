"""The deriver: draws the events of a derived source from its inputs' logs as they grow, for ingest to take in.

It writes one file a micro-batch, under the name of its checkpoint and the batch's number: a batch that is run again
after a crash makes the same file again. What is too late for Spark's join is counted here, and added by batch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from braid.define.derived.join import SIDES, JoinedSource
from braid.define.durations import format_duration
from braid.define.source import Source
from braid.errors import BraidError, NotYet
from braid.lineage.datasets import log_of, origin_of
from braid.lineage.events import LineageJob
from braid.log import contents as logs
from braid.log.derived import Derivation, DerivedPlaces, refuse_other_definition
from braid.log.joined import as_lines, joined, side
from braid.log.table import Log
from braid.runtime.logging import Logger
from braid.runtime.settings import bytes_of
from braid.runtime.status import QueryStatus
from braid.tables import delta_rs
from braid.tables.commits import Position
from speed_layer.jobs.batch_writer import MicroBatches
from speed_layer.jobs.checkpoint import Checkpoint, Plan
from speed_layer.jobs.job import Job, first_line

logger = Logger("derive")

MOST_FILES = 2**31 - 1


@dataclass(kw_only=True)
class Deriver(MicroBatches):
    """Writes what each micro-batch has drawn, and then how far it has read."""

    source: JoinedSource
    places: DerivedPlaces
    # The id of each input's table: a plan names the logs that it reads by these.
    tables: Mapping[str, str]
    last: Derivation | None
    # Batch -> inputs that were too late for it, as its query says; None if that is not known any more.
    counted: Callable[[int], int | None]

    def write_batch(self, rows: DataFrame, query: str, batch: int, plan: Plan) -> None:
        """The file first: whoever dies between the two makes the same file again."""
        last = self.last if self.last is not None and self.last.query == query else None
        if last is not None and batch < last.batch:
            raise BraidError(
                f"the checkpoint {self.checkpoint.folder} is older than what source {self.source.name!r} has drawn "
                f"(batch {batch} against {last.batch}). {self.checkpoint.mend}"
            )
        ordered = rows.repartition(1).sortWithinPartitions("id").select("line")
        events = self.places.put(f"{query}-{batch:09}", (row.line for row in ordered.toLocalIterator()))
        if last is None or last.batch != batch:
            ends = self._ends(plan)
            known = self._settled() or Derivation(self.source.identity, query, batch, ends)
            total = known.events + events
            self._keep(replace(known, query=query, batch=batch, ends=ends, events=total, settled=False))
        self.batches += 1
        logger.debug("batch derived", source=self.source.name, batch=batch, events=events)

    def settle(self) -> None:
        """After the last batch: what was too late for it is known by now."""
        with self.lock:
            if self.last is not None and not self.last.settled and self.batches:
                self._keep(self._settled() or self.last)

    def _settled(self) -> Derivation | None:
        """What is known, with the count of the newest batch; a count that a crash took is said."""
        if self.last is None or self.last.settled:
            return self.last
        late = self.counted(self.last.batch)
        if late is None:
            return replace(self.last, uncounted=self.last.uncounted + 1, settled=True)
        return replace(self.last, late=self.last.late + late, settled=True)

    def _keep(self, derivation: Derivation) -> None:
        self.places.keep_derivation(derivation)
        self.last = derivation

    def _ends(self, plan: Plan) -> dict[str, Position]:
        """Where the batch ends in each input's log; one that had nothing yet is read from its beginning."""
        ends = {end["reservoirId"]: end for end in plan.ends if end is not None}
        return {
            name: Position(end["reservoirVersion"], end["index"], end["isStartingVersion"])
            if (end := ends.get(table))
            else Position(0)
            for name, table in self.tables.items()
        }


@dataclass
class DeriveJob(Job):
    """What draws the events of one derived source, beside its ingest."""

    source: JoinedSource = field(kw_only=True)
    pause: timedelta = field(kw_only=True)
    deriver: Deriver | None = None
    counting: StreamingQuery | None = None

    @property
    def places(self) -> DerivedPlaces:
        return DerivedPlaces(Log(self.source, self.settings))

    @property
    def name(self) -> str:
        return f"derive {self.source.name}"

    @property
    def definition(self) -> JoinedSource:
        return self.source

    def lineage(self) -> LineageJob:
        logs_read = tuple(log_of(source, self.settings) for source in self.source.inputs)
        drawn = origin_of(self.source, self.settings)
        return LineageJob(f"derive.{self.source.name}", "STREAMING", logs_read, (drawn,))

    @property
    def writer(self) -> Deriver | None:
        return self.deriver

    def start(self, once: bool) -> None:
        """Goes on where it ended. One whose checkpoint is lost goes on there too, without what it remembered."""
        inputs = {source.name: Log(source, self.settings) for source in self.source.inputs}
        for name, log in inputs.items():
            if not logs.exists(self.spark, log):
                raise NotYet(
                    f"source {self.source.name!r} is derived from {name!r}, whose log is not there yet: run `braid "
                    f"ingest {name}`."
                )
        places, last = self.places, self.places.derivation()
        refuse_other_definition(self.source, last)
        mend = f"Move {places.checkpoint} away: the next start goes on behind what was read, and batch adds the rest."
        checkpoint = Checkpoint(places.checkpoint, mend)
        checkpoint.verify()
        begin = last.ends if last is not None and last.query != checkpoint.query_id() else None
        tables = {name: delta_rs.table_id(log.table) or "" for name, log in inputs.items()}
        self.deriver = Deriver(
            spark=self.spark, checkpoint=checkpoint, source=self.source, places=places, tables=tables, last=last,
            counted=self._counted,
        )  # fmt: skip
        if begin is not None:
            logger.warning(
                "the checkpoint is lost: what it remembered is left to batch", source=self.source.name
            )
        first = checkpoint.last_batch() is None and begin is None
        left, right = (self._side(which, begin, first) for which in SIDES)
        lines = as_lines(self.source, joined(self.source, left, right))
        writer = lines.writeStream.queryName(self.name).foreachBatch(self.deriver.append)
        writer = writer.option("checkpointLocation", places.checkpoint)
        trigger: dict[str, Any] = {"processingTime": f"{self.pause.total_seconds()} seconds"}
        self.query = self.counting = writer.trigger(**({"availableNow": True} if once else trigger)).start()
        logger.info("deriving", source=self.source.name, inputs=list(inputs))

    def _side(self, which: str, begin: dict[str, Position] | None, first: bool) -> DataFrame:
        """The events of one input as they come.

        All that was there before the first start is one micro-batch: within one, nothing is too late for anything,
        in whatever order a log's files lie.
        """
        source: Source = getattr(self.source, which)
        reader = self.spark.readStream.format("delta")
        # Delta has a limit of its own where none is given, of a thousand files.
        limit = {"maxFilesPerTrigger": MOST_FILES}
        if not first:
            limit = {"maxBytesPerTrigger": bytes_of(self.settings.batch_bytes)}
        reader = reader.options(**limit)
        if begin is not None:
            at = begin[source.name]
            # Within a commit nobody can begin: the rest of it is left to batch.
            reader = reader.option("startingVersion", at.version if at.is_between_commits else at.version + 1)
        events = side(self.source, which, reader.load(Log(source, self.settings).table))
        return events.withWatermark(source.event_time, format_duration(self.source.patience))

    def _counted(self, batch: int) -> int | None:
        """Inputs that Spark left out of a batch that this very query has finished."""
        if self.counting is None:
            return None
        for progress in reversed(self.counting._jsq.recentProgress()):
            if progress.batchId() == batch and progress.durationMs().containsKey("addBatch"):
                return sum(int(one.numRowsDroppedByWatermark()) for one in progress.stateOperators())
        return None

    def tend(self) -> None:
        """There is nothing to do between micro-batches."""

    def finish(self, once: bool) -> None:
        if self.deriver is not None:
            self.deriver.settle()

    def explain(self, failure: Exception) -> Exception:
        if any(word in str(failure) for word in ("StateStore", "state store", self.places.checkpoint)):
            mend = self.deriver.checkpoint.mend if self.deriver else ""
            return BraidError(
                f"the checkpoint of the deriver of {self.source.name!r} cannot be used: {first_line(failure)}. {mend}"
            )
        return RuntimeError(first_line(failure))

    def status(self) -> QueryStatus:
        progress, last = self.progress(), self.deriver.last if self.deriver else None
        operators = progress.get("stateOperators", [])
        return QueryStatus(
            name=self.name, kind="derive", source=self.source.name,
            state="retrying" if self.error else "running" if self.query else "starting",
            error=str(self.error) if self.error else None, retry_in=self.retry_in,
            batch=last.batch if last else None,
            rows_per_second=progress.get("processedRowsPerSecond"),
            batch_ms=progress.get("durationMs", {}).get("triggerExecution"),
            events=last.events if last else 0, late=last.late if last else 0,
            state_bytes=sum(operator["memoryUsedBytes"] for operator in operators) if operators else None,
        )  # fmt: skip
