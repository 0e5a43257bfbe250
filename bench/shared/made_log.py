"""A log that a benchmark writes itself, commit by commit, as ingest would have."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import functions as F

from braid.log import contents as logs
from braid.log.events import log_schema
from braid.log.table import Log
from braid.tables.commits import Commit

START = datetime(2026, 3, 1, tzinfo=UTC)
DISORDER = 300


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
