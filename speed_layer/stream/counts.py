"""What a stream counts on the way: its events, the late ones, and the largest event time, as Spark tells or not."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from braid.define.schema import quote
from braid.define.view import View
from braid.states import EVENTS
from braid.states.arrow import INSTANT
from braid.states.spark_calendar import timestamp
from braid.tables.commits import TailCommit
from braid.tables.delta_log import Transaction, newest_version, transaction
from braid.tables.view_tables import LATE, bounds

# Seconds until a count that has not come is suspected never to come, and until it is made anew.
FIRST_LOOK, PATIENCE = 0.1, 30.0


@dataclass
class Counts:
    """What a writer has seen since it began; `history` are the events up to the replay's cut."""

    events: int = 0
    history: int = 0
    late: int = 0
    revised: int = 0

    def add(
        self,
        spark: SparkSession,
        observations: tuple[Observation, ...],
        tail: str,
        commit: TailCommit,
        view: View,
    ) -> int | None:
        """Takes what was counted of a batch that has been committed; the largest event time in it, in microseconds.

        Spark leaves out what it knows to be empty, and with it whoever was to count there (SPARK-54620): a count is
        not waited for without an end, and one that does not come is made from the rows that were written.
        """
        if not observations:
            return None
        found: list[Any] = [reported(observation, FIRST_LOOK) for observation in observations]
        if any(report is None for report in found):
            made = made_by(tail, commit)
            if made is not None and not made.new:
                return None
            found = [reported(observation, PATIENCE) for observation in observations]
        if any(report is None for report in found):
            found = [recounted(spark, tail, made_by(tail, commit), commit, view)] * 2
        # By name: to iterate over a Java map costs an exception, and that a twentieth of a second.
        in_events, in_states = found
        self.events += in_events.get("events")
        self.history += in_events.get("history")
        self.late += in_states.get("late") or 0
        self.revised += in_states.get("revised")
        seen: int | None = in_events.get("seen")
        return seen

    def add_rows(self, rows: pa.Table, cut: datetime | None) -> None:
        """The same of rows in memory, which have been committed."""
        events, late = rows[EVENTS.state_name], rows[LATE]
        self.events += pc.sum(events).as_py() or 0
        if cut is not None:
            is_history = pc.less_equal(rows["epoch"], pa.scalar(cut, INSTANT))
            self.history += pc.sum(events.filter(is_history)).as_py() or 0
        self.late += pc.sum(late).as_py() or 0
        self.revised += pc.sum(pc.greater(late, 0)).as_py() or 0


def observed(view: View, cut: datetime | None) -> tuple[list[Column], list[Column]]:
    """What is counted on the way: of a batch's events, and of its states."""
    seen = F.unix_micros(F.max(quote(view.source.event_time)))
    late, is_history = F.col(LATE), F.expr(f"_epoch <= {timestamp(cut)}") if cut else F.lit(False)
    return (
        [F.count(F.lit(1)).alias("events"), F.count_if(is_history).alias("history"), seen.alias("seen")],
        [F.sum(late).alias("late"), F.count_if(late > 0).alias("revised")],
    )


def reported(observation: Observation, patience: float) -> Any | None:
    """What was counted; None when Spark has not told it in time, or has left out whoever was to count."""
    told = cast(Any, observation._jo)
    deadline = time.monotonic() + patience
    # Each look waits for a tenth of a second in the JVM.
    while (row := told.getRowOrEmpty()).isEmpty():
        if time.monotonic() >= deadline:
            return None
    # A row without columns is how Spark says that the count was left out.
    return told.getAsJava() if row.get().size() else None


def made_by(table: str, commit: TailCommit) -> Transaction | None:
    """The commit in a table that says this."""
    said, version = commit.to_json(), newest_version(table)
    while version is not None and (found := transaction(table, version)) is not None:
        if found.metadata == said:
            return found
        version = version - 1 if version > 0 else None
    return None


def recounted(
    spark: SparkSession, tail: str, made: Transaction | None, commit: TailCommit, view: View
) -> dict[str, Any]:
    """What a batch counted, from the rows that it wrote: the beginning of a pane stands for its newest event."""
    if made is None or not made.new:
        return {"events": 0, "history": 0, "late": 0, "revised": 0}
    events, late, cut = F.col(EVENTS.state_name), F.col(LATE), commit.replay_cut
    is_history = F.col("epoch") <= F.lit(cut) if cut else F.lit(False)
    row = _rows_of(spark, tail, made).agg(
        F.sum(events).alias("events"),
        F.coalesce(F.sum(F.when(is_history, events)), F.lit(0)).alias("history"),
        F.sum(late).alias("late"),
        F.count_if(late > 0).alias("revised"),
        F.unix_micros(F.max(bounds(view)[-1])).alias("seen"),
    ).first()  # fmt: skip
    assert row is not None
    return row.asDict()


def _rows_of(spark: SparkSession, table: str, made: Transaction) -> DataFrame:
    """The rows that a commit brought, from its own files."""
    reader = spark.read.option("basePath", table).option("__globPaths__", "false")
    schema = spark.read.format("delta").load(table).schema
    return reader.schema(schema).parquet(*(f"{table}/{file.path}" for file in made.new))


def rows_in(commits: Iterable[Transaction]) -> int | None:
    """How many rows commits brought; None when one of them does not say."""
    rows = [commit.rows for commit in commits if commit.new]
    known = [number for number in rows if number is not None]
    return sum(known) if len(known) == len(rows) else None


def highest(seen: datetime | None, micros: int | None, now: datetime) -> datetime | None:
    """The largest event time, but never later than now: one clock that is fast must not make windows final."""
    if micros is None:
        return seen
    latest = min(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros), now)
    return latest if seen is None else max(seen, latest)
