"""Spark's settings for an application on a standalone cluster, and whether its master answers and lets it in."""

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braid.errors import BraidError
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

SCHEME = "spark://"
# Where Spark's daemons look for the secret, and how a worker hands it to its executors.
SECRET_VARIABLE = "_SPARK_AUTH_SECRET"
FILE_SYSTEM_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
LOOPBACK = ("127.0.0.1", "localhost")
CONNECT_TIMEOUT = 5.0
# An application that is given nothing by then is told so; until then others may end.
PATIENCE = 120.0
BETWEEN_WORDS = 15.0

log = Logger("spark")


def is_cluster(settings: Settings) -> bool:
    return settings.spark_master.startswith(SCHEME)


def masters(settings: Settings) -> list[tuple[str, int]]:
    """The addresses of `spark://host:port,host:port`."""
    found = []
    for address in settings.spark_master.removeprefix(SCHEME).split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 2**16:
            raise BraidError(
                f"BRAID_SPARK_MASTER={settings.spark_master} is not possible: a cluster's address is "
                "spark://host:port, such as spark://127.0.0.1:7077."
            )
        found.append((host, int(port)))
    return found


def cluster_config(settings: Settings, jars: Sequence[Path]) -> dict[str, str]:
    """Spark's settings beyond those of one machine; each has its reason beside it."""
    path = os.pathsep.join(map(str, jars))
    config = {
        # Without a limit the first application takes every core, and the next one waits until it ends.
        "spark.cores.max": str(settings.spark_cores),
        "spark.executor.memory": settings.spark_executor_memory,
        # Spark's default of 200 is for terabytes: a micro-batch would be 200 tasks of a few rows.
        "spark.sql.shuffle.partitions": str(settings.spark_cores),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(settings.spark_cores),
        # As for the driver, and for the same reason. The installation is at the same place on every worker.
        "spark.executor.extraClassPath": path,
    }
    if settings.spark_secret.get_secret_value():
        # The secret itself is told later: these are on the driver's command line.
        config |= {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    if all(host in LOOPBACK for host, _ in masters(settings)):
        config |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    else:
        # Workers that lack the jars are sent them.
        config["spark.jars"] = ",".join(map(str, jars))
    if settings.home_is_local:
        # Executors write to the same folder as the driver, and are as much slowed down by a process for each file.
        config |= {
            "spark.hadoop.fs.file.impl": "braid.LocalFiles",
            "spark.sql.streaming.checkpointFileManagerClass": FILE_SYSTEM_CHECKPOINTS,
        }
    return config


def require_master(settings: Settings) -> None:
    """Whether anybody answers, asked in seconds and without a JVM."""
    for host, port in masters(settings):
        try:
            socket.create_connection((host, port), timeout=CONNECT_TIMEOUT).close()
        except OSError:
            continue
        return
    raise BraidError(
        f"no Spark master answers on {settings.spark_master}: start it (`braid cluster start` starts one on this "
        "machine), mend BRAID_SPARK_MASTER, or unset it to run in this process alone."
    )


def enter(settings: Settings, conf: "SparkConf") -> None:
    """Prepares this process for a session on the cluster, or says why there can be none.

    Spark itself would try for a minute and then say that its context was stopped.
    """
    from pyspark import SparkContext

    require_master(settings)
    SparkContext._ensure_initialized(conf=conf)
    if secret := settings.spark_secret.get_secret_value():
        # Only now: what a JVM is started with is on its command line.
        conf.set("spark.authenticate.secret", secret)
    _shake_hands(settings, SparkContext._jvm, conf)


def wait_for_executor(session: "SparkSession", settings: Settings, patience: float = PATIENCE) -> None:
    """Returns with the first executor: a job that is begun without one would wait for ever, and say nothing."""
    began = last = time.monotonic()
    known: Any = session.sparkContext._jsc.sc()
    # The driver is one of them.
    while known.getExecutorMemoryStatus().size() < 2:
        now = time.monotonic()
        wanted = f"{settings.spark_cores} cores with {settings.spark_executor_memory} of memory"
        if now - began > patience:
            session.stop()
            raise BraidError(
                f"the cluster {settings.spark_master} has had nothing free for this application for {patience:.0f} s "
                f"(it wants {wanted}): end another application, add workers, or lower BRAID_SPARK_CORES or "
                "BRAID_SPARK_EXECUTOR_MEMORY of the others."
            )
        if now - last > BETWEEN_WORDS:
            last = now
            log.warning(
                "waiting for the cluster: nothing is free", master=settings.spark_master, wants=wanted
            )
        time.sleep(0.1)


def _shake_hands(settings: Settings, jvm: Any, conf: "SparkConf") -> None:
    """Asks for the master as an application does: one that is refused would try for a minute."""
    from py4j.protocol import Py4JJavaError

    spark, levels = jvm.org.apache.spark, jvm.org.apache.logging.log4j.Level
    asked = spark.SparkConf(False)
    for key, value in (*conf.getAll(), ("spark.rpc.lookupTimeout", "10s"), ("spark.rpc.io.maxRetries", "0")):
        asked.set(key, value)
    defaults = (getattr(spark.SecurityManager, f"$lessinit$greater$default${number}")() for number in (2, 3))
    ways = spark.rpc.RpcEnv.create(
        "braid", "127.0.0.1", 0, asked, spark.SecurityManager(asked, *defaults), True
    )
    # What Spark has to say of a refusal is pages long, and said below in a sentence.
    _log_from(jvm, levels.OFF)
    try:
        for host, port in masters(settings):
            try:
                ways.setupEndpointRef(spark.rpc.RpcAddress(host, port), "Master")
            except Py4JJavaError:
                continue
            _log_from(jvm, levels.ERROR)
            return
    finally:
        ways.shutdown()
    given = "with this" if settings.spark_secret.get_secret_value() else "without a"
    raise BraidError(
        f"{settings.spark_master} does not let in an application {given} BRAID_SPARK_SECRET: set it to what the "
        "cluster was started with. If it is the same, the address may be that of something else than a master."
    )


def _log_from(jvm: Any, level: Any) -> None:
    jvm.org.apache.logging.log4j.core.config.Configurator.setRootLevel(level)
