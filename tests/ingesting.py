"""A source of web requests as the tests of ingest send them, and what they read in its log."""

import json
from typing import Any

from braid.log.table import Log
from speed_layer import recovery
from speed_layer.ingest.run import ingest


def event(identity: str | None, **fields: Any) -> bytes:
    values = {"id": identity, "time": "2024-03-08T12:00:00Z", "status": 200, "bytes": 10} | fields
    return json.dumps({key: value for key, value in values.items() if value is not None}).encode()


def rows(spark: Any, log: Log) -> Any:
    return spark.read.format("delta").load(log.table)


def ids(spark: Any, log: Log) -> list[str]:
    return sorted(row.id for row in rows(spark, log).where("_error is null").select("id").collect())


def run(spark: Any, log: Log, **options: Any) -> None:
    ingest(spark, [log.source], log.settings, once=True, **options)


def recover(spark: Any, log: Log) -> None:
    """What `braid recover SOURCE --yes` does."""
    planned = recovery.plan_source(spark, log)
    recovery.recover(spark, log.settings, f"ingest-{log.source.name}", planned)
