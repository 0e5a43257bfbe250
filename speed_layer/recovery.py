"""What to do when a checkpoint is lost or damaged: a new one that begins exactly where the log, or a tail, ends."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from braid import writing
from braid.define.view import View
from braid.errors import BraidError
from braid.log import contents as logs
from braid.log.table import INBOX_PARTITION, Log
from braid.runtime import documents
from braid.runtime.settings import Settings
from braid.states.calendar import instant_of
from braid.tables import delta_rs
from braid.tables.commits import Commit, Positions, TailCommit, keep, newest_commit, newest_tail_commit, turns
from braid.tables.view_tables import ViewTables
from speed_layer.ingest import folders
from speed_layer.ingest.origin import folder_of, require_topic
from speed_layer.jobs.checkpoint import Checkpoint
from speed_layer.jobs.driver_lock import only_driver, only_undriven

EARLIEST = -2


@dataclass(frozen=True)
class Takeover:
    """A new checkpoint's right to go on with what another one wrote: a log from places, a tail from a version on."""

    replaces: str
    start: Positions = field(default_factory=dict)
    version: int | None = None
    # Of a log that does not say who wrote it: its rows are in epochs before this one.
    epoch: str | None = None
    # Of a log: the batch that was the last one when its places were noted.
    batch: int | None = None


@dataclass(frozen=True)
class Recovery:
    """What a recovery would do, for people to read before it is done; without a takeover it begins anew."""

    name: str
    moves: str
    to: str
    takeover: Takeover | None
    says: str
    # Of a source whose files lie in another folder now: what makes them known there.
    moves_files: Callable[[], None] | None = None


def advice(name: str) -> str:
    """For a source or a view."""
    return (
        f"`braid recover {name}` says how it would begin a new checkpoint where the data ends, "
        f"and `braid recover {name} --yes` does it."
    )


def takeover_of(checkpoint: str) -> Takeover | None:
    text = documents.read(_file(checkpoint))
    return Takeover(**json.loads(text)) if text is not None else None


def refuse_lost_checkpoint(
    table: str,
    owner: str,
    checkpoint: Checkpoint,
    last: Commit | TailCommit | None,
    taken: Takeover | None,
    has_rows: bool,
    anew: str,
) -> None:
    """Batch numbers of a new checkpoint start at 0: where there are some already they would be skipped, silently.

    The table is the log of a source or the tail of a view; `anew` is what a person does when it is lost itself.
    """
    query = checkpoint.query_id()
    if last is None:
        finished = checkpoint.has_finished_a_batch()
        is_taken_over = taken is not None and taken.epoch is not None and not finished
        if writing.is_lost(False, has_rows, finished) and not is_taken_over:
            why = (
                "no commit that says how far it goes"
                if has_rows
                else "no batch, but its checkpoint has finished one"
            )
            raise BraidError(
                f"the {table} of {owner} holds {'rows, and ' * has_rows}{why}: "
                f"it was lost or emptied, or its commits were cleaned up. {anew}"
            )
        return
    finished = checkpoint.has_finished_a_batch()
    if not writing.may_go_on(query, last.query, taken.replaces if taken else None, finished):
        found = f"belongs to another {table}, or a later one ({query})" if query else "is gone"
        raise BraidError(
            f"the checkpoint of {owner} at {checkpoint.folder} {found}, but the {table} holds {last.batch + 1} batches"
            f": starting anew would count them twice. {checkpoint.mend}"
        )
    if query != last.query and taken is not None and not writing.may_take_over(taken.batch, last.batch):
        raise BraidError(
            f"the {table} of {owner} has gone on since its recovery was planned (to batch {last.batch}, from "
            f"{taken.batch}): what came in between would be read again. Stop whoever writes it. {checkpoint.mend}"
        )


def starting_positions(log: Log, taken: Takeover | None) -> Positions | None:
    """Where a new checkpoint begins; Kafka wants every partition named."""
    if taken is None or not log.source.kafka_topic:
        return taken.start if taken else None
    partitions = require_topic(log.source, log.settings)
    return {str(p): EARLIEST for p in partitions} | taken.start


def plan_source(spark: SparkSession, log: Log, now: datetime | None = None) -> Recovery:
    last = newest_commit(log.table) if logs.exists(spark, log) else None
    if not log.source.kafka_topic and (moved := _plan_move(spark, log, last)) is not None:
        return moved
    # Kafka's positions are in the commit; for files and the inbox the log itself says what it holds, and where no
    # commit says anything any more it does so for all.
    places, newest = _next_places(spark, log) if logs.exists(spark, log) else ({}, None)
    ends = sorted((last.end if last else _of_kafka(places)).items())
    taken = None
    if last is not None:
        taken = Takeover(last.query, places | last.end, batch=last.batch)
    elif newest is not None:
        taken = Takeover("", places, epoch=(newest + log.settings.epoch).isoformat())
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
    return Recovery(log.source.name, log.checkpoint, _aside(log.checkpoint, now), taken, said)


def _plan_move(spark: SparkSession, log: Log, last: Commit | None) -> Recovery | None:
    """Of a source whose folder is another one than before; one that has lost its checkpoint too is recovered next."""
    present, _ = folder_of(log)
    folder = folders.known(log, present)
    if last is None or folder.now == present:
        return None
    said = (
        f"The files of source {log.source.name!r} were read in {folder.now}, and its folder is {present} now. What "
        "has the name of a file that was read there is taken for the same file, and is not read again; all others are "
        "read. Nothing is forgotten and nothing is moved. If there are other files under the same names, give these "
        "other names first."
    )
    return Recovery(
        log.source.name, folder.now, present, None, said, lambda: folders.move(spark, log, present)
    )


def plan_view(view: View, tables: ViewTables, now: datetime | None = None) -> Recovery:
    """Refuses a tail that ends within a commit of the log: no query can be told to begin there."""
    last = newest_tail_commit(tables.tail)
    if last is None and (delta_rs.has_rows(tables.tail) or delta_rs.throughs(tables.base)):
        raise BraidError(
            f"the tail of view {view.name!r} does not say how far it has read the log, and there are rows already: to "
            f"begin anew would count them twice. `braid kappa replay {view.name}` builds the view anew from the "
            "log, beside this one."
        )
    if last is not None and not last.position.is_between_commits:
        raise BraidError(
            f"the tail of view {view.name!r} ends in the middle of what its stream was reading (commit "
            f"{last.position.version} of the log), and no new checkpoint can begin there: `braid kappa replay "
            f"{view.name}` builds the view anew from the log, beside this one."
        )
    where = f"from commit {last.position.version} of the log" if last else "from the beginning of the log"
    said = (
        f"The checkpoint {tables.checkpoint} is moved aside (nothing is deleted), and the next `braid stream` goes on "
        f"{where}. No event is lost and none is counted again."
    )
    taken = Takeover(last.query, version=last.position.version) if last else None
    return Recovery(view.name, tables.checkpoint, _aside(tables.checkpoint, now), taken, said)


def recover(spark: SparkSession, settings: Settings, job: str, planned: Recovery) -> None:
    """Each step may be repeated: a crash in between leaves a plan that can be made again."""
    with only_driver(spark, settings, job):
        if planned.moves_files is not None:
            planned.moves_files()
            return
        if planned.takeover is not None:
            documents.write(_file(planned.moves), json.dumps(asdict(planned.takeover)))
        if documents.exists(planned.moves):
            documents.move_folder(planned.moves, planned.to)


def _file(checkpoint: str) -> str:
    return f"{checkpoint}.takeover.json"


def _aside(checkpoint: str, now: datetime | None) -> str:
    return f"{checkpoint}.lost-{now or datetime.now(UTC):%Y%m%dT%H%M%S}"


def _next_places(spark: SparkSession, log: Log) -> tuple[Positions, datetime | None]:
    """Behind the last place of each partition, and the newest epoch, as the log's own rows say."""
    last = (F.max("_offset") + 1).alias("next"), F.unix_micros(F.max("_epoch")).alias("epoch")
    rows = logs.read(spark, log).groupBy("_partition").agg(*last).collect()
    newest = max((row.epoch for row in rows), default=None)
    places = {str(row._partition): row.next for row in rows}
    return places, instant_of(newest) if newest is not None else None


def _of_kafka(places: Positions) -> Positions:
    return {place: offset for place, offset in places.items() if int(place) != INBOX_PARTITION}


def keep_word(
    settings: Settings, job: str, table: str, newest: Callable[[str], Commit | TailCommit | None]
) -> None:
    """Before others commit to a table whose writer does not run: its own commits are cleaned up one day."""
    with only_undriven(settings, job) as alone:
        # Asked first: where writers take turns, what one of them says after this is known to be newer.
        turn = turns(table)
        if (alone or settings.is_fenced) and (last := newest(table)) is not None:
            keep(table, last, turn)
