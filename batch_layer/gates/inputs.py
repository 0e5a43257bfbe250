"""The input gate of a source: what its expectations say of a day, recorded so that it is asked once for a cut."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING

from batch_layer import days as records
from batch_layer.days import Gate
from batch_layer.gates import data_docs
from batch_layer.gates.judge import InputDay, audit_input
from batch_layer.plan import Days, SourcePlan, plan
from braid.define.source import Source
from braid.define.view import View
from braid.log.events import log_columns
from braid.log.table import Log
from braid.recompute import day_rows
from braid.runtime.frames import timestamp
from braid.runtime.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# How many days before a day its volume may be compared with.
MOST_TRAILING = 31


def gate(
    spark: "SparkSession", settings: Settings, views: Sequence[View], day: date, cut: datetime | None = None
) -> dict[str, Gate]:
    """What the input gates say of a day: source -> gate. The run that follows need not ask again."""
    found = {}
    for source in plan(settings, views, Days(day, day), cut):
        rows = day_rows(spark, Log(source.source, settings), [day], source.cut)
        found[source.source.name] = judge(settings, source, rows, day, source.cut)
    data_docs.build(settings)
    return found


def judge(settings: Settings, source: SourcePlan, rows: "DataFrame", day: date, cut: datetime) -> Gate:
    """Asks the expectations; `rows` are the log's, of that day and perhaps others."""
    known = source.arrivals
    upto = rows.where(f"day = date'{day}' and _epoch <= {timestamp(cut)}")
    asked = InputDay(
        source.source, day, cut, known.rejected_with(day, cut), known.trailing(day, cut, MOST_TRAILING)
    )
    last = records.read_gate(settings, source.source, day)
    found = records.judged(last, cut, audit_input(settings, upto, asked))
    records.write_gate(settings, source.source, day, found)
    return found


@contextmanager
def kept(rows: "DataFrame", source: Source) -> "Iterator[DataFrame]":
    """The log's rows, in memory and on disk: expectations and every view read them."""
    held = rows.selectExpr(*log_columns(source)).persist()
    try:
        yield held
    finally:
        held.unpersist()
