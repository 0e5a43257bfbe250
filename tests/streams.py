"""A log that a test writes commit by commit, as ingest does, and views of it."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from braid import Source, View, approx_distinct, count, quantile, session, sliding, stddev, sum_
from braid.log import contents as logs
from braid.log.events import log_schema
from braid.log.table import Log
from braid.merge.spark import served_states
from braid.recompute import truth
from braid.runtime.settings import Settings
from braid.states.spark_calendar import no_rows
from braid.tables.commits import Commit
from braid.tables.view_tables import ViewTables, bounds
from speed_layer.jobs.engine import stream

MINUTE = timedelta(minutes=1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
requests = Source(
    name="requests", kafka_topic="requests",
    schema="id string, time timestamp, host string, url string, bytes bigint",
    event_time="time", event_id="id", timezone="America/New_York",
)  # fmt: skip
traffic = View(
    name="traffic", source=requests, keys=("url",), window=sliding("5 minutes", every="1 minute"),
    where="bytes < 900",
    measures={"hits": count(), "bytes": sum_("bytes"), "hosts": approx_distinct("host"), "spread": stddev("bytes")},
)  # fmt: skip
visits = View(
    name="visits", source=requests, keys=("host",), window=session(gap="5 minutes"),
    measures={"bytes": sum_("bytes"), "p95": quantile("bytes", 0.95)},
)  # fmt: skip


@dataclass
class Feed:
    """The only writer of a log. `minute` counts epochs from noon."""

    spark: Any
    log: Log
    batch: int = -1

    def commit(self, events: Sequence[dict[str, Any]], minute: int, beat: bool = False) -> None:
        import pyarrow as pa
        from pyspark.sql import functions as F
        from pyspark.sql.pandas.types import to_arrow_schema

        if not logs.exists(self.spark, self.log):
            logs.create(self.spark, self.log)
        epoch = NOON + minute * MINUTE
        self.batch += not beat
        commit = Commit("ingest", self.batch, epoch, epoch, beat=beat)
        schema = log_schema(self.log.source)
        # As Arrow: rows from Python lists would be passed through Python workers.
        values = pa.Table.from_pylist([self._row(*one) for one in enumerate(events)], to_arrow_schema(schema))
        rows = self.spark.createDataFrame(values, schema) if events else no_rows(self.spark, schema)
        rows = rows.withColumn("_epoch", F.lit(epoch))
        writer = rows.coalesce(1).write.format("delta").mode("append")
        writer.option("userMetadata", commit.to_json()).save(self.log.table)

    def beat(self, minute: int) -> None:
        self.commit([], minute, beat=True)

    def _row(self, number: int, event: dict[str, Any]) -> dict[str, Any]:
        time = event[self.log.source.event_time]
        day = time.astimezone(self.log.source.zone).date()
        return {
            "day": day,
            "_partition": 0,
            "_offset": self.batch * 10_000 + number,
            "_arrival": NOON,
        } | event


def run_once(spark: Any, settings: Settings, *views: View) -> None:
    stream(spark, views, settings, only=True, once=True, clock=lambda: NOON + timedelta(days=3))


def tables_of(settings: Settings, view: View, number: int = 1) -> ViewTables:
    return ViewTables(settings, view.name, number)


def rows_of(view: View, states: Any) -> Counter[Any]:
    """States as values that can be compared: of a sketch, what it says. Rows that occur twice are not equal to one."""
    from pyspark.sql import functions as F

    numbers = [m.present(F.col(m.state_name)).alias(name) for name, m in view.measures.items()]
    rows = states.select("day", *bounds(view), *view.keys, F.col("count").alias("_events"), *numbers)
    return Counter(tuple(map(_rounded, row)) for row in rows.collect())


def _rounded(value: Any) -> Any:
    """The last digits of a floating-point sum depend on the order of adding."""
    return float(f"{value:.9g}") if isinstance(value, float) else value


def served(spark: Any, view: View, tables: ViewTables, cut: datetime | None = None) -> Counter[Any]:
    """What a reader gets from tail and base."""
    return rows_of(view, served_states(spark, view, tables, cut))


def recomputed(spark: Any, view: View, settings: Settings, cut: datetime | None = None) -> Counter[Any]:
    """What the log says, in one go."""
    return rows_of(view, truth(spark, settings, view, cut))


def some(number: int, minute: int, seed: int = 0, spread: int = 900) -> list[dict[str, Any]]:
    """Events around a minute after noon, many of them late, some of another day and some without a url."""
    chance = random.Random(f"{minute} {seed}")
    return [
        {
            "id": f"{minute}-{seed}-{n}",
            "time": NOON
            + minute * MINUTE
            - timedelta(seconds=chance.choice([1, 10, 100]) * chance.randrange(spread)),
            "host": f"h{chance.randrange(6)}",
            "url": chance.choice(["/", "/a", None]),
            "bytes": chance.randrange(1000),
        }
        for n in range(number)
    ]
