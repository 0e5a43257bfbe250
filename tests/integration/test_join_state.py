"""What the stream of a join remembers is bounded by how far apart a pair may be and by how long it waits."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from braid import Join, Source
from braid.define.durations import format_duration
from braid.log.events import log_schema
from braid.log.joined import joined, side

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOURS, EACH = 6, 40
shown, clicks = (
    Source(name=name, kafka_topic=name, schema="id string, time timestamp, k string", event_time="time", event_id="id")
    for name in ("shown", "clicks")
)  # fmt: skip
join = Join(
    name="clicked", left=shown, right=clicks, on="k", within=("0 minutes", "30 minutes"), columns={}, lateness="10 min"
)  # fmt: skip


def write(spark: Any, source: Source, folder: Path, hour: int) -> None:
    """One file: an hour's events, each with a key of its own."""
    rows = [
        {
            "id": f"{hour}-{n}", "time": NOON + timedelta(hours=hour, minutes=n), "k": f"{hour}-{n}",
            "_partition": 0, "_offset": hour * EACH + n, "_arrival": NOON, "_epoch": NOON, "day": NOON.date(),
        }
        for n in range(EACH)
    ]  # fmt: skip
    schema = log_schema(source)
    table = pa.Table.from_pylist(rows, to_arrow_schema(schema))
    spark.createDataFrame(table, schema).coalesce(1).write.mode("append").parquet(f"{folder}/{source.name}")


def test_state_does_not_grow_with_what_was_read(spark: Any, tmp_path: Path) -> None:
    sizes = []
    for hour in range(HOURS):
        for source in join.inputs:
            write(spark, source, tmp_path, hour)
        sides = [
            side(
                join, which, spark.readStream.schema(log_schema(source)).parquet(f"{tmp_path}/{source.name}")
            )
            for which, source in zip(("left", "right"), join.inputs, strict=True)
        ]
        waiting = [one.withWatermark("time", format_duration(join.patience)) for one in sides]
        query = (
            joined(join, *waiting)
            .writeStream.format("noop")
            .option("checkpointLocation", f"{tmp_path}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        newest = query.lastProgress
        assert newest is not None
        sizes.append(sum(operator["numRowsTotal"] for operator in newest["stateOperators"]))
    # Of both sides what a click of the last half hour, or of the ten minutes before that, could still belong to.
    assert max(sizes[1:]) <= 2 * EACH
    assert 3 * max(sizes) < HOURS * EACH * 2
