"""A log that a test writes commit by commit, as ingest does, and views of it."""

import json
import os
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from braid import Source, View, approx_distinct, count, quantile, session, sliding, stddev, sum_
from braid.define.fingerprint import fingerprint
from braid.log import contents as logs
from braid.log.events import log_ddl, log_schema
from braid.log.table import Log
from braid.merge.spark import served_states
from braid.recompute import truth
from braid.runtime import documents
from braid.runtime.settings import Settings
from braid.tables.commits import Commit
from braid.tables.delta_log import commit_file, newest_version
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
        """As Spark writes it and says it; Spark itself takes a hundred times as long for a few rows."""
        table = Path(self.log.table.removeprefix("file://"))
        if (newest := newest_version(str(table))) is None:
            _create(self.spark, self.log)
            newest = 0
        epoch = NOON + minute * MINUTE
        self.batch += not beat
        said = Commit("ingest", self.batch, epoch, epoch, beat=beat).to_json()
        rows = [self._row(*one) | {"_epoch": epoch} for one in enumerate(events)]
        metrics = {"numFiles": str(len({row["day"] for row in rows})), "numOutputRows": str(len(rows))}
        info = {
            "timestamp": time.time_ns() // 10**6, "operation": "WRITE", "operationMetrics": metrics,
            "operationParameters": {"mode": "Append", "partitionBy": "[]"}, "isBlindAppend": True,
            "userMetadata": said, "txnId": str(uuid.uuid4()),
        }  # fmt: skip
        files = [{"add": file} for file in self._files(table, rows)]
        _save(table / commit_file(newest + 1), [{"commitInfo": info}, *files])

    def _files(self, table: Path, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """One for each day, which is a partition and not written into it."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(log_schema(self.log.source))
        for day in sorted({row["day"] for row in rows}):
            of_day = pa.Table.from_pylist([row for row in rows if row["day"] == day], schema)
            path = f"day={day}/part-00000-{uuid.uuid4()}.c000.zstd.parquet"
            (table / path).parent.mkdir(exist_ok=True)
            parquet.write_table(of_day.drop_columns("day"), table / path, compression="zstd")
            yield {
                "path": path, "partitionValues": {"day": str(day)}, "size": (table / path).stat().st_size,
                "modificationTime": time.time_ns() // 10**6, "dataChange": True,
                "stats": json.dumps({"numRecords": len(of_day)}),
            }  # fmt: skip

    def beat(self, minute: int) -> None:
        self.commit([], minute, beat=True)

    def _row(self, number: int, event: dict[str, Any]) -> dict[str, Any]:
        day = event[self.log.source.event_time].astimezone(self.log.source.zone).date()
        return {
            "day": day,
            "_partition": 0,
            "_offset": self.batch * 10_000 + number,
            "_arrival": NOON,
        } | event


# Schema -> the first commit of a log that has it, as Spark wrote it.
_created: dict[str, str] = {}


def _create(spark: Any, log: Log) -> None:
    """A new and empty log. Spark makes the first of a schema; the others differ from it in their id."""
    schema, first = log_ddl(log.source), Path(log.table.removeprefix("file://"), commit_file(0))
    if schema not in _created:
        logs.create(spark, log)
        _created[schema] = first.read_text()
        return
    actions = [json.loads(line) for line in _created[schema].splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["id"] = str(uuid.uuid4())
    _save(first, actions)


def _save(commit: Path, actions: list[dict[str, Any]]) -> None:
    """Whole or not at all, and never in the place of another."""
    commit.parent.mkdir(parents=True, exist_ok=True)
    draft = commit.with_name(f".{uuid.uuid4()}")
    draft.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    os.link(draft, commit)
    draft.unlink()


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


_recomputed: dict[Any, Counter[Any]] = {}


def recomputed(spark: Any, view: View, settings: Settings, cut: datetime | None = None) -> Counter[Any]:
    """What the log says, in one go. The same log says the same; what is looked up may have changed."""
    table = Log(view.source, settings).table
    newest = newest_version(table)
    known_by = fingerprint(view), cut, newest and documents.read(f"{table}/{commit_file(newest)}")
    if view.enrich or known_by not in _recomputed:
        _recomputed[known_by] = rows_of(view, truth(spark, settings, view, cut))
    return _recomputed[known_by]


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
