"""A Spark cluster for tests: on free ports, with its processes in sight."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from braid.infra import cluster as local
from braid.infra.cluster_files import LocalCluster
from tests.conftest import free_port


@contextmanager
def running_cluster(folder: Path, secret: str = "", **asked: Any) -> Iterator[LocalCluster]:
    cluster = LocalCluster(folder, free_port(), free_port(), secret)
    local.start(cluster, **asked)
    try:
        yield cluster
    finally:
        local.stop(cluster)


def executors(cluster: LocalCluster) -> list[psutil.Process]:
    """What workers have started for applications."""
    parts = cluster.leaders().values()
    return [
        process for process, _ in cluster.processes() if process.pid not in parts and is_executor(process)
    ]


def is_executor(process: psutil.Process) -> bool:
    try:
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def worker(cluster: LocalCluster, part: str = "worker-1") -> psutil.Process:
    return psutil.Process(cluster.leaders()[part])


def environment(cluster: LocalCluster, **more: str) -> dict[str, str]:
    """What a `braid` command needs to run there."""
    return {
        "BRAID_SPARK_MASTER": cluster.master,
        "BRAID_SPARK_SECRET": cluster.secret,
        "BRAID_SPARK_MEMORY": "1g",
        "BRAID_SPARK_EXECUTOR_MEMORY": "512m",
    } | more
