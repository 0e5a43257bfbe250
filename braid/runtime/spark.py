"""The one place that builds a Spark session: for one machine, for a cluster and for tests."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from braid.errors import BraidError
from braid.runtime import object_store, spark_cluster
from braid.runtime.installation import class_archive, jars
from braid.runtime.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session_config(settings: Settings, cores: int) -> dict[str, str]:
    """Spark's settings for Braid; each one that departs from Spark's default has its reason beside it."""
    config = {
        "spark.master": settings.spark_master,
        # Not through spark.jars: Spark's own start looks for the classes of file systems and of Delta's commits.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, _own_jars(settings))),
        "spark.driver.memory": settings.spark_memory,
        "spark.driver.extraJavaOptions": _java_options(),
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
        # VACUUM would commit twice a night to a source at rest, and push out what its writer said last.
        "spark.databricks.delta.vacuum.logging.enabled": "false",
        # On a local disk, Delta's own store lets two processes that commit at once overwrite each other.
        "spark.delta.logStore.file.impl": "braid.LocalCommits",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        # A state's changes are written at each commit, and its files only now and then.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Counting a state's rows would read each key once more before it is written.
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        # A stream that waits for nothing looks for new commits twenty times a second, not a hundred times.
        "spark.sql.streaming.pollingDelay": "50ms",
        # Queries side by side get their turns; a replay's long tasks do not keep the live ones waiting.
        "spark.scheduler.mode": "FAIR",
        "spark.sql.parquet.compression.codec": "zstd",
        # Spark's default is an old 12-byte form without statistics, slower to write and known to few readers.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # A batch of a few days is written without being sorted by day first.
        "spark.sql.maxConcurrentOutputFileWriters": "32",
        # Sketches are aggregated in memory up to this many groups a task; beyond 128, Spark's default, it would sort.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "10000",
        # Compiled code is found again for as many views: beyond a hundred classes Spark would compile at each batch.
        "spark.sql.codegen.cache.maxEntries": "3000",
        "spark.sql.warehouse.dir": settings.location("warehouse"),
        # Options of sources are shown in plans; a login among them is not.
        "spark.sql.redaction.options.regex": "(?i)url|password|secret|jaas",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": str(settings.spark_ui_port > 0).lower(),
        **({"spark.ui.port": str(settings.spark_ui_port)} if settings.spark_ui_port else {}),
        # Each query would start threads of its own, which stay for a minute: a stream has hundreds of queries by then.
        "spark.sql.resultQueryStage.maxThreadThreshold": "64",
        "spark.sql.shuffleExchange.maxThreadThreshold": "64",
        # Nobody looks at them, and a stream has a thousand in ten minutes: as many plans would stay in memory.
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
    }
    if spark_cluster.is_cluster(settings):
        config |= spark_cluster.cluster_config(settings, _own_jars(settings))
    elif not settings.spark_master.startswith("local"):
        config["spark.jars"] = ",".join(map(str, _own_jars(settings)))
    else:
        config |= {
            "spark.sql.shuffle.partitions": str(cores),
            # VACUUM lists files in this many tasks: at Spark's 10,000 it takes a minute for an empty folder.
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(cores),
            # Without a host name that resolves, a laptop on the move cannot start Spark.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # A stream creates ten files a micro-batch, and Hadoop starts a process (chmod, readlink) for each.
            "spark.hadoop.fs.file.impl": "braid.LocalFiles",
            "spark.sql.streaming.checkpointFileManagerClass": spark_cluster.FILE_SYSTEM_CHECKPOINTS,
        }
    return config | object_store.spark_config(settings.home)


def _java_options() -> str:
    options = [f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"]
    if class_archive().is_file():
        # A JVM that the archive does not fit goes on without it, and need not say so.
        options += [f"-XX:SharedArchiveFile={class_archive()}", "-Xshare:auto", "-Xlog:cds*=off"]
    return " ".join(options)


def _own_jars(settings: Settings) -> list[Path]:
    return [*jars("spark"), *(jars("s3") if object_store.is_s3(settings.home) else ())]


def local_cores(master: str) -> int:
    """How many cores `local[N]` means; `local[*]` is all of this machine's."""
    wanted = master.removeprefix("local").strip("[]").split(",")[0]
    return int(wanted) if wanted.isdigit() else (os.cpu_count() or 1) if wanted == "*" else 1


def spark_session(settings: Settings, app_name: str = "braid", *, briefly: bool = False) -> "SparkSession":
    """The session of this process, built on the first call; `briefly` for what is over before much is computed."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    settings.make_home()
    if settings.spark_ui_port:
        _keep_pages_here(settings)
    # Executors run the very Python that this is, whatever their PATH says.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAppName(app_name)
    conf.setAll(list(session_config(settings, local_cores(settings.spark_master)).items()))
    if briefly:
        # Java's second compiler pays off after minutes, and until then takes a core of those that have few.
        conf.set("spark.driver.extraJavaOptions", f"{_java_options()} -XX:TieredStopAtLevel=1")
    enters = SparkContext._active_spark_context is None and spark_cluster.is_cluster(settings)
    try:
        with _stdout_kept_clean(), _ctrl_c_kept():
            if enters:
                spark_cluster.enter(settings, conf)
            session = SparkSession.builder.config(conf=conf).getOrCreate()
    except PySparkRuntimeError as error:
        raise BraidError(f"Spark cannot start: {error}. `braid doctor` says what is missing.") from None
    _quieten()
    if enters:
        spark_cluster.wait_for_executor(session, settings)
    return session


def _keep_pages_here(settings: Settings) -> None:
    """Spark's pages have no password and tell of every query: they are for who is on this machine."""
    if not settings.spark_master.startswith("local"):
        raise BraidError(
            f"BRAID_SPARK_UI_PORT is for Spark on this machine, and BRAID_SPARK_MASTER is {settings.spark_master!r}: "
            "unset one of the two. The pages of a cluster are its master's."
        )
    # The one thing that Spark asks for the address of its pages.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


@contextmanager
def _ctrl_c_kept() -> Iterator[None]:
    """PySpark takes Ctrl-C for itself; a command that ends in good order on it (see braid.signals) keeps it."""
    before = signal.getsignal(signal.SIGINT)
    yield
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and callable(before) and before is not signal.default_int_handler:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """The JVM inherits stderr as its stdout: VACUUM prints there, and a command's output must be only its own."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _quieten() -> None:
    """PySpark logs each error that it raises with its whole Java stack, also those that are caught and explained."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    # Py4J does the same with whatever ends a micro-batch.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL + 1)


def from_arrow(spark: "SparkSession", rows: "pa.Table", schema: "StructType | None" = None) -> "DataFrame":
    """Rows in memory as a DataFrame.

    In one piece: Spark takes an empty one among several for the end, and what comes after it would be lost.
    """
    whole = rows.combine_chunks()
    return spark.createDataFrame(whole) if schema is None else spark.createDataFrame(whole, schema)
