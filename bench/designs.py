"""Three ways from Kafka to a table of numbers that can be read, each a Spark application of its own."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Event as Signal
from typing import Any

from pyspark.sql import functions as F

from bench.shared.common import REQUESTS, batches_after, parsed_stream
from braid import View, count, sum_, tumbling
from braid.define.windows import Fixed
from braid.runtime.settings import Settings
from braid.runtime.spark import spark_session
from braid.tables.view_tables import PROPERTIES, ViewTables

MEASURES = {"hits": count(), "volume": sum_("bytes")}
# Minutes that divide a day: no two views are the same work.
WINDOWS = (1, 5, 2, 3, 4, 6, 8, 9, 10, 12, 15, 16, 18, 20, 24)
KEYS = {"by_page": ("url",), "by_status": ("status",), "by_host": ("host",)}
# How many views there may be.
NUMBERS = range(1, len(WINDOWS) * len(KEYS) + 1)
BRAID, MERGE, COMPLETE = "braid", "merge", "complete"
DESIGNS = {
    BRAID: "Braid: log, then tails",
    MERGE: "stateful aggregation, MERGE into Delta",
    COMPLETE: "stateful aggregation, native Delta sink (complete)",
}
# The other tables are given what Braid's have, so that designs are compared and not settings.
SHARED = ("delta.checkpointInterval", "delta.enableDeletionVectors")
# The engine keeps its last hundred reports of a query.
LOOK_EVERY = 15.0


def views_of(number: int) -> list[View]:
    """So many views of the requests, in turn by page, by status and by host."""
    chosen = [(name, keys, minutes) for minutes in WINDOWS for name, keys in KEYS.items()][:number]
    return [
        View(
            name=f"{name}_{minutes}", source=REQUESTS, keys=keys, measures=MEASURES,
            window=tumbling(f"{minutes} minutes"),
        )
        for name, keys, minutes in chosen
    ]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One design with its first so many views; `dedup` only means something to Braid."""

    design: str
    views: int
    dedup: bool = False

    def table(self, settings: Settings) -> str:
        """Where the probes become readable: the table of the last view by page."""
        return _table(self, settings, [view for view in views_of(self.views) if view.keys == ("url",)][-1])


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch as the engine saw it."""

    query: str
    number: int
    milliseconds: int


def application(case: Case, settings: Settings, stop: Signal) -> list[MicroBatch]:
    """Runs a design until it is told to stop, and tells what its micro-batches took."""
    spark = spark_session(settings, "bench")
    views = [view if not case.dedup else _with_ids(view) for view in views_of(case.views)]
    seen: dict[str, dict[int, MicroBatch]] = {}
    done, halt = threading.Event(), threading.Event()

    def watch() -> None:
        looked = 0.0
        while not done.wait(0.2):
            # Told to stop, it looks a last time, while the queries are there to be asked.
            if stop.is_set() or time.monotonic() - looked > LOOK_EVERY:
                _look(spark, seen)
                looked = time.monotonic()
            if stop.is_set():
                halt.set()
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        if case.design == BRAID:
            from speed_layer.jobs.engine import stream

            stream(spark, views, settings, sources=[views[0].source], stop=halt)
        else:
            queries = [_query(spark, case, settings, view) for view in views]
            while not halt.wait(0.5):
                for query in queries:
                    assert query.isActive, query.exception()
            for query in queries:
                query.stop()
    finally:
        done.set()
        watcher.join()
    return [batch for batches in seen.values() for batch in batches.values()]


def _look(spark: Any, seen: dict[str, dict[int, MicroBatch]]) -> None:
    for query in spark.streams.active:
        known = seen.setdefault(query.name, {})
        for number, progress in batches_after(query, max(known, default=-1)).items():
            known[number] = MicroBatch(query.name, number, progress["durationMs"]["triggerExecution"])


def _query(spark: Any, case: Case, settings: Settings, view: View) -> Any:
    """What one would write by hand for a view; as fast as possible, which is the best it can do."""
    from delta.tables import DeltaTable

    events = parsed_stream(spark, settings, str(view.source.kafka_topic))
    timed = events.withColumn("time", F.col("time").cast("timestamp")).withWatermark("time", view.lateness)
    grouped = timed.groupBy(F.window("time", _size(view)).alias("window"), *view.keys)
    numbers = grouped.agg(F.count("*").alias("hits"), F.sum("bytes").alias("volume"))
    numbers = numbers.select(F.col("window.start").alias("pane"), *view.keys, "hits", "volume")
    location = _table(case, settings, view)
    table = DeltaTable.create(spark).location(location).addColumns(numbers.schema)
    for name in SHARED:
        table = table.property(name, PROPERTIES[name])
    table.execute()
    stream = numbers.writeStream.queryName(view.name).option("checkpointLocation", f"{location}-checkpoint")
    if case.design == COMPLETE:
        return stream.outputMode("complete").format("delta").start(location)
    return stream.outputMode("update").foreachBatch(_merging(location, ("pane", *view.keys))).start()


def _merging(location: str, keys: Sequence[str]) -> Any:
    same = " and ".join(f"old.{key} <=> new.{key}" for key in keys)

    def merge(rows: Any, _: int) -> None:
        from delta.tables import DeltaTable

        old = DeltaTable.forPath(rows.sparkSession, location).alias("old")
        merged = old.merge(rows.alias("new"), same).whenMatchedUpdateAll().whenNotMatchedInsertAll()
        merged.execute()

    return merge


def _table(case: Case, settings: Settings, view: View) -> str:
    if case.design == BRAID:
        return ViewTables(settings, view.name, 1).tail
    return settings.location(view.name)


def _size(view: View) -> str:
    assert isinstance(view.window, Fixed)
    return f"{view.window.size.total_seconds():.0f} seconds"


def _with_ids(view: View) -> View:
    return replace(view, source=replace(view.source, event_id="id"))
