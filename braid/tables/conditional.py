"""Commits to a base only if nobody has written to it since it was read: else it is read and decided again.

Every writer of a base counts in one Delta transaction id, and each commits the number after the one that it read. Delta
skips a commit whose number is there already, and refuses one whose number is taken while it is being made. So of two
writers that read the same version one commits, on any kind of storage and without a lock.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameWriter, SparkSession

from braid.errors import BraidError
from braid.runtime.logging import Logger
from braid.tables.commits import BaseCommit
from braid.tables.delta_log import newest_version, transactions
from braid.tables.delta_rs import Pinned, open_table, pin
from braid.writing import next_turn, was_made

if TYPE_CHECKING:
    import pyarrow as pa

logger = Logger("tables")

# The id under which all writers of a base count their commits.
WRITERS = "braid-base"
# How Delta's names for all kinds of conflicts between two commits begin.
CONFLICT = "DELTA_CONCURRENT"
# Each attempt loses to a commit that was made: so many in a row are no coincidence.
ATTEMPTS = 20

Result = TypeVar("Result")


class Overtaken(Exception):
    """Somebody wrote to the table after it was read: what was decided from it may be wrong."""


@dataclass(frozen=True)
class Seen:
    """A table as a writer read it. `writes` counts the conditional commits that it has; a table of old has none."""

    location: str
    table: DeltaTable
    version: int
    writes: int

    def pin(self) -> Pinned:
        return pin(self.table)


def see(location: str) -> Seen:
    """The table as it is now."""
    table = open_table(location)
    if table is None:
        raise BraidError(f"there is no table at {location}: run `braid stream`, which creates it.")
    return Seen(location, table, table.version(), table.transaction_version(WRITERS) or 0)


def again_while_overtaken(location: str, attempt: Callable[[Seen], Result]) -> Result:
    """Lets an attempt read, decide and commit; one that was overtaken does it all again, from what is there then."""
    for _ in range(ATTEMPTS):
        try:
            return attempt(see(location))
        except Overtaken:
            logger.debug("overtaken by another writer", table=location)
    raise BraidError(
        f"the table {location} was written by others {ATTEMPTS} times while this was deciding what to write: nothing "
        "was written. Run it again when fewer runs publish the same view."
    )


def commit(spark: SparkSession, writer: DataFrameWriter, seen: Seen, said: BaseCommit) -> int:
    """Saves with what is said of it, if the table is still as it was seen. Returns the version that this made."""
    token = uuid.uuid4().hex
    writer = writer.option("userMetadata", replace(said, token=token).to_json())
    writer = writer.option("txnAppId", WRITERS).option("txnVersion", next_turn(seen.writes))
    try:
        writer.save(seen.location)
    except (Py4JJavaError, PySparkException) as error:
        if CONFLICT not in str(error):
            raise
        raise Overtaken from error
    return _made(seen, token)


def can_commit_here(location: str) -> bool:
    """On a disk: in a store Braid commits through Spark. Of a path with these signs delta-rs makes no address."""
    return "://" not in location and not set(location) & set("[]^|")


def commit_here(rows: "pa.Table", where: str, seen: Seen, said: BaseCommit) -> int:
    """The same for rows that this process holds, in the place of those that a condition on partitions is true for.

    Without Spark: it takes as long to write fifty small files, and to read the table's log, as this does for a
    thousand. The commit is made as the version after the one that was seen, or not at all.
    """
    properties = CommitProperties(
        custom_metadata={"userMetadata": replace(said, token=uuid.uuid4().hex).to_json()},
        app_transactions=[Transaction(WRITERS, next_turn(seen.writes))], max_commit_retries=0,
    )  # fmt: skip
    try:
        write_deltalake(
            seen.table, rows, mode="overwrite", predicate=where, commit_properties=properties,
            writer_properties=WriterProperties(compression="ZSTD"),
        )  # fmt: skip
    except CommitFailedError as error:
        if (newest_version(seen.location) or 0) <= seen.version:
            raise
        raise Overtaken from error
    return int(seen.table.version())


def _made(seen: Seen, token: str) -> int:
    """The version that carries the token. Delta says nothing when it skips a commit: then there is none."""
    for done in transactions(seen.location, seen.version + 1):
        said = BaseCommit.from_json(done.metadata)
        if said is not None and was_made(token, said.token):
            return done.version
    if (newest_version(seen.location) or 0) <= seen.version:
        raise RuntimeError(f"a commit to {seen.location} left no trace")
    raise Overtaken
