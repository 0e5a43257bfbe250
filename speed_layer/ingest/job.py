"""The ingest job: from Kafka or a folder into each source's log, every record exactly once."""

import math
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from braid.define.derived.join import JoinedSource
from braid.define.source import Source
from braid.errors import BraidError
from braid.lineage.datasets import log_of, origin_of
from braid.lineage.events import LineageJob
from braid.log import contents as logs
from braid.log.table import Log
from braid.runtime import documents
from braid.runtime.logging import Logger
from braid.runtime.status import QueryStatus
from speed_layer import recovery
from speed_layer.ingest import dedup, folders, records
from speed_layer.ingest.appender import Appender, Counted
from speed_layer.ingest.origin import folder_of, require_topic
from speed_layer.ingest.parse import parse, unknown_fields
from speed_layer.jobs.checkpoint import Checkpoint
from speed_layer.jobs.job import Job, first_line

logger = Logger("ingest")

DRIFT = "drift"
# More often than people can see is of no use to anybody.
ALONE = timedelta(milliseconds=500)
# So many streams of a log are one job that a core computes between two commits.
PER_CORE = 10
# What a task says of a schema registry that it could not ask, and Spark of a file that it could not read: other words
# stand before it.
_SAID = re.compile(
    r"the schema registry '\w+' (does not answer|answers \d+)[^\n]*|Encountered error while reading file [^\n]*"
)


@dataclass
class IngestJob(Job):
    """The ingest of one source, beside so many streams."""

    source: Source = field(kw_only=True)
    streams: int = 0
    appender: Appender | None = None
    counting: StreamingQuery | None = None

    @property
    def log(self) -> Log:
        return Log(self.source, self.settings)

    @property
    def name(self) -> str:
        return f"ingest {self.source.name}"

    @property
    def definition(self) -> Source:
        return self.source

    def lineage(self) -> LineageJob:
        origin, log = origin_of(self.source, self.settings), log_of(self.source, self.settings)
        return LineageJob(f"ingest.{self.source.name}", "STREAMING", (origin,), (log,))

    @property
    def writer(self) -> Appender | None:
        return self.appender

    def start(self, once: bool) -> None:
        """The query goes on from where the log ends."""
        source, settings = self.source, self.log.settings
        if source.kafka_topic:
            require_topic(source, settings)
            logs.create(self.spark, self.log)
        else:
            folder, _ = folder_of(self.log)
            logs.create(self.spark, self.log)
            if isinstance(source, JoinedSource) and folders.known(self.log, folder).now != folder:
                # Like an inbox, it is in a home that was moved: its files are the same ones.
                folders.move(self.spark, self.log, folder)
            folders.refuse_moved(self.log, folder)
        documents.make_folder(self.log.inbox)
        checkpoint = Checkpoint(self.log.checkpoint, recovery.advice(source.name))
        checkpoint.verify()
        takeover = recovery.takeover_of(self.log.checkpoint)
        appender = Appender(
            spark=self.spark, checkpoint=checkpoint, log=self.log, clock=self.clock, counted=self._counted,
            replaces=takeover.replaces if takeover else None,
            after=datetime.fromisoformat(takeover.epoch) if takeover and takeover.epoch else None,
        )  # fmt: skip
        appender.begin()
        owner = f"source {source.name!r}"
        recovery.refuse_lost_checkpoint(
            "log", owner, checkpoint, appender.last, takeover, appender.has_rows, checkpoint.mend
        )
        folders.move_inbox(self.spark, self.log)
        appender.wake()
        self.appender = appender
        self._tune_parquet()
        rows = self._plan(appender, takeover)
        writer = rows.writeStream.queryName(self.name).foreachBatch(appender.append)
        writer = writer.option("checkpointLocation", self.log.checkpoint)
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            pause = interval(settings.trigger, self.streams, self.spark.sparkContext.defaultParallelism)
            writer = writer.trigger(processingTime=f"{pause.total_seconds()} seconds")
        self.query = writer.start()
        # Asked for its counts also after it has ended.
        self.counting = self.query
        logger.info("ingest started", source=source.name, log=self.log.table)

    def _tune_parquet(self) -> None:
        """Values that hardly repeat are not worth a dictionary: building one takes a fifth of the writing."""
        hadoop = self.spark._jsc.hadoopConfiguration()
        for column in ("_offset", self.source.event_id):
            hadoop.set(f"parquet.enable.dictionary#{column}", "false")

    def _plan(self, appender: Appender, takeover: "recovery.Takeover | None") -> DataFrame:
        start = recovery.starting_positions(self.log, takeover)
        arriving = records.stream(self.spark, self.log, start)
        if drift := unknown_fields(self.source):
            arriving = arriving.observe(DRIFT, *drift)
        return dedup.drop_duplicates(
            self.source, parse(self.source, arriving), appender.floor, appender.ahead
        )

    def _counted(self, batch: int) -> Counted | None:
        """What the engine says of a batch that this very query has finished; None if a crash took it along."""
        if self.counting is None:
            return None
        for progress in reversed(self.counting._jsq.recentProgress()):
            if progress.batchId() == batch and progress.durationMs().containsKey("addBatch"):
                operators = progress.stateOperators()
                dropped = operators[0].customMetrics().get("numDroppedDuplicateRows") if len(operators) else 0
                observed: Any = progress.observedMetrics().get(DRIFT)
                found = [observed.get(i) for i in range(observed.size())] if observed is not None else []
                names = {name for text in found if text for name in text.split("\u0000")}
                if names - set(self._known_fields()):
                    logger.warning("unknown fields", source=self.source.name, fields=sorted(names))
                return Counted(int(dropped or 0), tuple(names))
        return None

    def _known_fields(self) -> tuple[str, ...]:
        last = self.appender.last if self.appender else None
        return last.unknown_fields if last else ()

    def tend(self) -> None:
        """An idle source's epochs are closed all the same."""
        assert self.appender is not None
        self.appender.beat()

    def finish(self, once: bool) -> None:
        """All that was ingested can be cut, also when ingest does not run."""
        if self.appender is not None:
            self.appender.close_epoch()
            self.appender.rest()

    def explain(self, failure: Exception) -> Exception:
        text = str(failure)
        if any(
            word in text for word in ("state store", "StateStore", "checkpoint location", self.log.checkpoint)
        ):
            return BraidError(
                f"the checkpoint of source {self.source.name!r} cannot be used: {first_line(failure)}. "
                f"{recovery.advice(self.source.name)}"
            )
        said = _SAID.search(text)
        return RuntimeError(said.group().strip() if said else first_line(failure))

    def status(self) -> QueryStatus:
        progress, last = self.progress(), self.appender.last if self.appender else None
        operators = progress.get("stateOperators", [])
        return QueryStatus(
            name=self.name, kind="ingest", source=self.source.name,
            state="retrying" if self.error else "running" if self.query else "starting",
            error=str(self.error) if self.error else None, retry_in=self.retry_in,
            batch=last.batch if last else None,
            rows_per_second=progress.get("processedRowsPerSecond"),
            batch_ms=progress.get("durationMs", {}).get("triggerExecution"),
            lag_events=behind_kafka(progress),
            events=sum(last.end.values()) - sum(last.start.values()) if last else 0,
            state_bytes=sum(operator["memoryUsedBytes"] for operator in operators) if operators else None,
            epoch=last.epoch if last else None,
        )  # fmt: skip


def interval(asked: timedelta | None, streams: int, cores: int) -> timedelta:
    """How often ingest commits, unless somebody asked for something else.

    Every commit is a micro-batch of all streams together. Where many share a core, commits that come faster than they
    can be taken make ingest and streams wait for each other, and numbers are fresher with fewer of them.
    """
    return ALONE * max(1, math.ceil(streams / (cores * PER_CORE))) if asked is None else asked


def behind_kafka(progress: dict[str, Any]) -> int | None:
    """How many records the broker had that the newest batch did not read; files have no such number."""
    behind = [
        max(0, known - source["endOffset"][topic].get(partition, 0))
        for source in progress.get("sources", [])
        if isinstance(source.get("latestOffset"), dict) and isinstance(source.get("endOffset"), dict)
        for topic, partitions in source["latestOffset"].items()
        for partition, known in (partitions.items() if isinstance(partitions, dict) else ())
    ]
    return sum(behind) if behind else None
