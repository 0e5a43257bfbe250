"""The one place that builds a Spark session: for one machine, for a cluster and for tests."""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from braid.errors import BraidError
from braid.installation import jars
from braid.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session_config(settings: Settings, cores: int) -> dict[str, str]:
    """Spark's settings for Braid; each one that departs from Spark's default has its reason beside it."""
    config = {
        "spark.master": settings.spark_master,
        "spark.jars": ",".join(map(str, jars("spark"))),
        "spark.driver.memory": settings.spark_memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Time is UTC inside; the source's zone appears only where a day or an hour is meant.
        "spark.sql.session.timeZone": "UTC",
        # A value that cannot be cast or divided is null. As an error it would stop a stream for one bad record.
        "spark.sql.ansi.enabled": "false",
        # Small tables with frequent commits: fifty partitions to read one snapshot take seconds.
        "spark.databricks.delta.snapshotPartitions": "1",
        # A third of an append's time goes into a file that nothing here reads.
        "spark.databricks.delta.writeChecksumFile.enabled": "false",
        # Heartbeats of an idle source are empty commits, and they must be recorded.
        "spark.databricks.delta.skipRecordingEmptyCommits": "false",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        # A state's changes are written at each commit, and its files only now and then.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.warehouse.dir": settings.location("warehouse"),
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
    }
    if settings.spark_master.startswith("local"):
        config |= {
            "spark.sql.shuffle.partitions": str(cores),
            # Without a host name that resolves, a laptop on the move cannot start Spark.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return config


def local_cores(master: str) -> int:
    """How many cores `local[N]` means; `local[*]` is all of this machine's."""
    wanted = master.removeprefix("local").strip("[]").split(",")[0]
    return int(wanted) if wanted.isdigit() else (os.cpu_count() or 1) if wanted == "*" else 1


def spark_session(settings: Settings, app_name: str = "braid") -> "SparkSession":
    """The session of this process, built on the first call."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    for key, value in session_config(settings, local_cores(settings.spark_master)).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise BraidError(f"Spark cannot start: {error}. `braid doctor` says what is missing.") from None
    _quieten()
    return session


def _quieten() -> None:
    """PySpark logs each error that it raises with its whole Java stack, also those that are caught and explained."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
