"""What a fold may not change: how many events there are, and how many of them came late."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from braid.errors import BraidError
from braid.states import EVENTS
from braid.tables.view_tables import LATE


@dataclass(frozen=True)
class Totals:
    """What a fold may not change: how many events there are, and how many of them came late."""

    events: int = 0
    late: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(self.events + other.events, self.late + other.late)

    def __str__(self) -> str:
        return f"{self.events} events, {self.late} of them late,"


NOTHING = Totals()


def totals_by_day(rows: DataFrame) -> dict[date, Totals]:
    sums = rows.groupBy("day").agg(F.sum(EVENTS.state_name).alias("events"), F.sum(LATE).alias("late"))
    return {row.day: Totals(row.events, row.late) for row in sums.collect()}


def totals(rows: DataFrame) -> Totals:
    return sum(totals_by_day(rows).values(), NOTHING)


def totals_in(rows: pa.Table) -> Totals:
    """The same of rows in memory."""
    return Totals(pc.sum(rows[EVENTS.state_name]).as_py() or 0, pc.sum(rows[LATE]).as_py() or 0)


@contextmanager
def unchanged(name: str, before: Totals, folded: DataFrame) -> Iterator[DataFrame]:
    """Lets folded states be written only if they hold as many events as the rows that they replace."""
    # Counted before they are committed, and made only once.
    folded.persist()
    try:
        refuse_change(name, before, totals(folded))
        yield folded
    finally:
        folded.unpersist()


def refuse_change(name: str, before: Totals, after: Totals) -> None:
    if before != after:
        raise BraidError(
            f"a fold of the {name} would change it from {before} to {after}: nothing was written. Report this; "
            "`braid kappa replay` builds the view anew from the log."
        )
