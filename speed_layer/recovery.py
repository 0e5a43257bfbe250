"""What to do when a checkpoint is lost or damaged: a new one that begins exactly where the log ends."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from braid.define.source import Source
from braid.errors import BraidError
from braid.log import contents as logs
from braid.log.table import Log
from braid.tables.commits import Commit, Positions, newest_commit
from braid.tables.storage import Storage
from speed_layer.ingest.topics import require_topic
from speed_layer.jobs.checkpoint import Checkpoint
from speed_layer.jobs.only_driver import only_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLIEST = -2


@dataclass(frozen=True)
class Takeover:
    """A new checkpoint's right to go on with a log that another one wrote."""

    replaces: str
    start: Positions


def advice(source: Source) -> str:
    return (
        f"`braid recover {source.name}` says how it would begin a new checkpoint at the end of the log, "
        f"and `braid recover {source.name} --yes` does it."
    )


def takeover(storage: Storage, log: Log) -> Takeover | None:
    file = _file(log)
    return Takeover(**json.loads(storage.read(file))) if storage.exists(file) else None


def refuse_lost_checkpoint(
    log: Log, checkpoint: Checkpoint, last: Commit | None, taken: Takeover | None
) -> None:
    """Batch numbers of a new checkpoint start at 0: on a log that has some already they would be skipped, silently."""
    query = checkpoint.query_id()
    if last is None:
        if checkpoint.last_batch() is not None and logs_are_gone(checkpoint):
            raise BraidError(
                f"the log of source {log.source.name!r} holds no batch, but its checkpoint has finished "
                f"{checkpoint.last_batch()}: the table {log.table} was lost or emptied. {advice(log.source)}"
            )
        return
    allowed = {query, taken.replaces if taken else None}
    if last.query not in allowed:
        found = f"belongs to another log ({query})" if query else "is gone"
        raise BraidError(
            f"the checkpoint of source {log.source.name!r} at {log.checkpoint} {found}, but the log holds "
            f"{last.batch + 1} batches: starting anew would count them twice. {advice(log.source)}"
        )


def logs_are_gone(checkpoint: Checkpoint) -> bool:
    """Whether a batch was finished: a first batch that was only planned leaves no rows behind."""
    return any(name.isdigit() for name in checkpoint.storage.names(f"{checkpoint.folder}/commits"))


def starting_positions(log: Log, taken: Takeover | None) -> Positions | None:
    """Where a new checkpoint begins; Kafka wants every partition named."""
    if taken is None or not log.source.kafka_topic:
        return taken.start if taken else None
    partitions = require_topic(log.source, log.settings)
    return {str(p): EARLIEST for p in partitions} | taken.start


@dataclass(frozen=True)
class Recovery:
    """What a recovery would do, for people to read before it is done."""

    source: str
    moves: str
    to: str
    replaces: str | None
    start: Positions
    says: str


def plan(spark: "SparkSession", log: Log, now: datetime | None = None) -> Recovery:
    last = newest_commit(spark, log.table) if logs.exists(spark, log) else None
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%S")
    # Kafka's positions are in the commit; for files and the inbox the log itself says what it holds.
    start = _next_places(spark, log) | last.end if last else {}
    ends = sorted(last.end.items()) if last else []
    where = (
        ", ".join(f"partition {partition} from {offset}" for partition, offset in ends)
        or "from the beginning"
    )
    said = (
        f"The checkpoint {log.checkpoint} is moved aside (nothing is deleted), and the next `braid ingest` reads "
        f"{where if log.source.kafka_topic else 'the files that are not in the log'}. No event is lost and none of the "
        f"log is read again. Ids that were remembered are forgotten: a duplicate of an event of the last "
        f"{log.source.dedup_horizon} may be accepted once more."
    )
    return Recovery(
        log.source.name,
        log.checkpoint,
        f"{log.checkpoint}.lost-{stamp}",
        last.query if last else None,
        start,
        said,
    )


def recover(spark: "SparkSession", log: Log, planned: Recovery) -> None:
    """Each step may be repeated: a crash in between leaves a plan that can be made again."""
    storage = Storage(spark)
    with only_driver(spark, log.settings, f"ingest-{log.source.name}"):
        if planned.replaces is not None:
            taken = {"replaces": planned.replaces, "start": planned.start}
            storage.write(_file(log), json.dumps(taken))
        if storage.exists(planned.moves):
            storage.move(planned.moves, planned.to)


def _file(log: Log) -> str:
    return f"{log.checkpoint}.takeover.json"


def _next_places(spark: "SparkSession", log: Log) -> Positions:
    from pyspark.sql import functions as F

    rows = logs.read(spark, log).groupBy("_partition").agg((F.max("_offset") + 1).alias("next"))
    return {str(row._partition): row.next for row in rows.collect()}
