"""What to do when a stream's checkpoint is lost or damaged: a new one that begins exactly where its tail ends."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from braid.define.view import View
from braid.errors import BraidError
from braid.tables.commits import TailCommit
from braid.tables.storage import Storage
from braid.tables.view_tables import ViewTables
from speed_layer.jobs.checkpoint import Checkpoint
from speed_layer.jobs.only_driver import only_driver
from speed_layer.stream.tail import newest_tail_commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Takeover:
    """A new checkpoint's right to go on with a tail that another one wrote, from a version of the log on."""

    replaces: str
    version: int


@dataclass(frozen=True)
class Recovery:
    """What a recovery would do, for people to read before it is done."""

    view: str
    moves: str
    to: str
    replaces: str | None
    version: int | None
    says: str


def advice(view: View) -> str:
    return (
        f"`braid recover {view.name}` says how it would begin a new checkpoint at the end of the tail, "
        f"and `braid recover {view.name} --yes` does it."
    )


def find(storage: Storage, tables: ViewTables) -> Takeover | None:
    file = _file(tables)
    return Takeover(**json.loads(storage.read(file))) if storage.exists(file) else None


def refuse_lost_checkpoint(
    view: View, tables: ViewTables, checkpoint: Checkpoint, last: TailCommit | None, taken: Takeover | None
) -> None:
    """Batch numbers of a new checkpoint start at 0: on a tail that has some already they would be skipped, silently."""
    query = checkpoint.query_id()
    if last is None:
        if any(name.isdigit() for name in checkpoint.storage.names(f"{checkpoint.folder}/commits")):
            raise BraidError(
                f"the tail of view {view.name!r} holds no batch, but its checkpoint has finished "
                f"{checkpoint.last_batch()}: the table {tables.tail} was lost or emptied. `braid kappa replay "
                f"{view.name}` builds it anew from the log."
            )
        return
    if last.query not in {query, taken.replaces if taken else None}:
        found = f"belongs to another tail ({query})" if query else "is gone"
        raise BraidError(
            f"the checkpoint of view {view.name!r} at {tables.checkpoint} {found}, but the tail holds "
            f"{last.batch + 1} batches: starting anew would count them twice. {advice(view)}"
        )


def plan(spark: "SparkSession", view: View, tables: ViewTables, now: datetime | None = None) -> Recovery:
    """Refuses a tail that ends within a commit of the log: no query can be told to begin there."""
    last = newest_tail_commit(spark, tables)
    if last is not None and not last.position.is_between_commits:
        raise BraidError(
            f"the tail of view {view.name!r} ends in the middle of what its stream was reading (commit "
            f"{last.position.version} of the log), and no new checkpoint can begin there: `braid kappa replay "
            f"{view.name}` builds the view anew from the log, beside this one."
        )
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%S")
    where = f"from commit {last.position.version} of the log" if last else "from the beginning of the log"
    said = (
        f"The checkpoint {tables.checkpoint} is moved aside (nothing is deleted), and the next `braid stream` goes on "
        f"{where}. No event is lost and none is counted again."
    )
    return Recovery(
        view.name, tables.checkpoint, f"{tables.checkpoint}.lost-{stamp}",
        last.query if last else None, last.position.version if last else None, said,
    )  # fmt: skip


def recover(spark: "SparkSession", tables: ViewTables, planned: Recovery) -> None:
    """Each step may be repeated: a crash in between leaves a plan that can be made again."""
    storage = Storage(spark)
    with only_driver(spark, tables.settings, f"stream-{tables.view}-v{tables.number}"):
        if planned.replaces is not None:
            storage.write(
                _file(tables), json.dumps({"replaces": planned.replaces, "version": planned.version})
            )
        if storage.exists(planned.moves):
            storage.move(planned.moves, planned.to)


def _file(tables: ViewTables) -> str:
    return f"{tables.checkpoint}.takeover.json"
