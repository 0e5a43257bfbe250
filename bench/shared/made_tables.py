"""Tables that benchmarks write themselves: a log as ingest would have, commit by commit, and a view's base and tail."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from pyspark.sql import functions as F

from bench.shared.common import BY_PAGE
from braid.deploy.store import changing
from braid.deploy.versions import deployed
from braid.log import contents as logs
from braid.log.events import log_schema
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.commits import Commit, Position, TailCommit
from braid.tables.view_tables import ViewTables

FIRST = datetime(2024, 3, 1, tzinfo=UTC)
MINUTE, MINUTES = timedelta(minutes=1), 1440
INSTANT = pa.timestamp("us", "UTC")

START = datetime(2026, 3, 1, tzinfo=UTC)
DISORDER = 300


def page(number: int) -> str:
    return f"/page/{number:04d}.html"


class MadeTables:
    """Writes what a batch layer and a stream would have written, and counts it."""

    def __init__(self, settings: Settings, keys: int) -> None:
        self.place = ViewTables(settings, BY_PAGE.name, 1)
        self._keys = pa.array([page(number) for number in range(keys)])
        self._count = keys
        self._draw = np.random.default_rng(7)
        self._batch = 0
        with changing(settings, BY_PAGE.name) as draft:
            draft.value = deployed(draft.value, BY_PAGE, FIRST)

    def base(self, days: int) -> None:
        """So many days, a file each, as a publish writes them."""
        for number in range(days):
            day = FIRST + timedelta(days=number)
            panes = np.repeat(np.arange(MINUTES), self._count)
            table = self._states(day, panes, np.tile(np.arange(self._count), MINUTES))
            through = pa.repeat(pa.scalar(FIRST + timedelta(days=number + 1), INSTANT), len(table))
            write_deltalake(
                self.place.base,
                table.append_column("through", through).select(
                    ["day", "through", "pane", "_late", "url", "count", "sum_bytes"]
                ),
                mode="append",
                partition_by=["day"],
            )

    def commit(self, day: int, minute: int) -> int:
        """One micro-batch of the stream: every key in this minute; gives back how many events it held."""
        start = FIRST + timedelta(days=day)
        table = self._states(start, np.full(self._count, minute), np.arange(self._count))
        epoch = start + minute * MINUTE
        mark = TailCommit(
            "made", self._batch, Position(self._batch), epoch=epoch, complete=epoch - MINUTE, seen=epoch
        )
        self._batch += 1
        write_deltalake(
            self.place.tail,
            table.add_column(0, "epoch", pa.repeat(pa.scalar(epoch, INSTANT), len(table))),
            mode="append",
            partition_by=["epoch"],
            commit_properties=CommitProperties(custom_metadata={"userMetadata": mark.to_json()}),
        )
        return int(table["count"].to_numpy().sum())

    def _states(self, day: datetime, minutes: Any, keys: Any) -> pa.Table:
        counts = self._draw.integers(1, 200, len(keys))
        start = int(day.timestamp() * 1_000_000)
        panes = pa.array(start + minutes * 60_000_000, pa.int64()).cast(INSTANT)
        return pa.table(
            {
                "day": pa.repeat(pa.scalar(day.date(), pa.date32()), len(keys)),
                "pane": panes,
                "_late": pa.array(np.zeros(len(keys), np.int64)),
                "url": self._keys.take(pa.array(keys)),
                "count": pa.array(counts.astype(np.int64)),
                "sum_bytes": pa.array(counts.astype(np.int64) * 4_321).cast(pa.decimal128(38, 0)),
            }
        )


@dataclass
class MadeLog:
    """The only writer of a log; its n-th epoch is n epochs after the start."""

    spark: Any
    log: Log
    batch: int = -1
    pages: int = 600

    def create(self) -> None:
        logs.create(self.spark, self.log)

    def commit(
        self, first: int, count: int, epoch: int, at: timedelta, spread: timedelta, files: int = 1
    ) -> None:
        """So many web requests over a stretch of time, evenly but for a few minutes of disorder."""
        self.batch += 1
        begin, seconds = int((START + at).timestamp()), int(spread.total_seconds())
        rows = self.spark.range(first, first + count, numPartitions=files).selectExpr(
            "cast(id as string) as id",
            f"timestamp_seconds({begin} + (id - {first}) * {seconds} div {count} + abs(hash(id)) % {DISORDER}) as time",
            "concat('host', abs(hash(id, 1)) % 3000, '.example.org') as host",
            f"concat('/page-', floor({self.pages} * pow(rand(7), 3)), '.html') as url",
            "if(id % 12 = 0, 404, 200) as status",
            "cast(abs(hash(id, 2)) % 100000 as bigint) as bytes",
            "cast(0 as bigint) as _partition",
            "id as _offset",
            "cast(null as string) as _error",
            "cast(null as binary) as _raw",
        )
        moment = START + epoch * self.log.settings.epoch
        rows = rows.withColumn("_arrival", F.lit(moment)).withColumn("_epoch", F.lit(moment))
        self._append(rows.withColumn("day", F.to_date("time")), Commit("ingest", self.batch, moment, moment))

    def spread(self, events: int, days: int, commits: int) -> datetime:
        """Events in order of time over some days, in commits of an epoch each; the last closed epoch."""
        self.create()
        each, share = events // commits, timedelta(days=days) / commits
        for epoch in range(commits):
            self.commit(epoch * each, each, epoch, epoch * share, share, files=2)
        self.close(commits)
        return START + (commits - 1) * self.log.settings.epoch

    def close(self, epoch: int) -> None:
        """A heartbeat: what was committed before it is closed."""
        moment = START + epoch * self.log.settings.epoch
        nothing = self.spark.createDataFrame([], log_schema(self.log.source))
        self._append(nothing, Commit("ingest", self.batch, moment, moment, beat=True))

    def _append(self, rows: Any, commit: Commit) -> None:
        names = [column.name for column in log_schema(self.log.source)]
        writer = rows.select(*names).write.format("delta").mode("append")
        writer.option("userMetadata", commit.to_json()).save(self.log.table)
