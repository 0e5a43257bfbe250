"""A file of events taken through parsing, first copies and a view, without a broker, a table or a stream."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.define.schema import quote
from braid.define.source import Source
from braid.define.view import View
from braid.log.events import first_copies, view_events
from braid.log.lookups import LookupTables
from braid.runtime.settings import Settings
from braid.states.spark import prepare, present
from speed_layer.ingest.folders import WatchedFolder
from speed_layer.ingest.parse import parse
from speed_layer.ingest.records import FILE_SCHEMA, from_files, from_rows


@dataclass(frozen=True)
class Tried:
    """What a file of events gives: the events that count, how many do not, and the view's numbers."""

    events: list[dict[str, Any]]
    rejected: Mapping[str, int]
    duplicates: int
    rows: dict[tuple[Any, ...], dict[str, Any]]


def try_out(spark: SparkSession, settings: Settings, view: View, file: Path) -> Tried:
    """As ingest and batch would see these lines, had they come in this order within one epoch."""
    log = _rows(spark, _as_lines(view.source), file).cache()
    try:
        accepted = log.where("_error is null")
        firsts = first_copies(accepted, view.source)
        events = firsts.select(*map(quote, view.source.columns)).toArrow().to_pylist()
        reasons = log.where("_error is not null").groupBy("_error").count().collect()
        counted = view_events(view, firsts, LookupTables(spark, settings).table_of)
        numbers = present(view, prepare(view, counted)).toArrow().to_pylist()
        return Tried(
            events,
            {row["_error"]: row["count"] for row in reasons},
            accepted.count() - len(events),
            dict(_row(view, number) for number in numbers),
        )
    finally:
        log.unpersist()


def _as_lines(source: Source) -> Source:
    """Records that are not lines are written as JSON in a file, which is what Avro is decoded to."""
    return replace(source, format="json", registry=None) if source.format == "avro" else source


def _rows(spark: SparkSession, source: Source, file: Path) -> DataFrame:
    folder = WatchedFolder(str(file.parent), str(file.parent))
    if source.format == "parquet":
        lines = from_rows(spark.read.schema(source.schema).parquet(str(file)), source, folder)
    else:
        content = [(str(file), None, None, file.read_bytes())]
        lines = from_files(spark.createDataFrame(content, FILE_SCHEMA), source, folder)
    return parse(source, lines).withColumn("_epoch", F.current_timestamp())


def _row(view: View, number: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    start = (number["window_start"],) if "window_start" in number else ()
    keys = tuple(number[key] for key in view.keys)
    return (*keys, *start), {name: number[name] for name in view.measures}
