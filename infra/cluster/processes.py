"""The processes of a local Spark cluster: a master, workers, and the executors that these start.

All of them carry the mark of the folder, so that executors are found after their worker is gone.
"""

import os
import shutil
import subprocess
from pathlib import Path

import psutil

from braid.runtime.spark_cluster import SECRET_VARIABLE
from infra.cluster.files import HOST, Choices, LocalCluster
from infra.services.marked import mark_of, marked

MARK = "CLUSTER_OF_BRAID"
MASTER = "master"
# What a master or a worker needs itself; executors have memory of their own.
HEAP = "256m"


def workers(choices: Choices) -> list[str]:
    return [f"worker-{number}" for number in range(1, choices.workers + 1)]


def spawn(cluster: LocalCluster, part: str, choices: Choices) -> "subprocess.Popen[bytes]":
    """Starts a part in the background, in a session of its own."""
    shutil.rmtree(cluster.work(part), ignore_errors=True)
    with cluster.log(part).open("wb") as log:
        return subprocess.Popen(
            _command(cluster, part, choices),
            env=_environment(cluster, part),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cluster.folder, start_new_session=True,
        )  # fmt: skip


def ours(cluster: LocalCluster) -> list[tuple[psutil.Process, str]]:
    """Every process of this cluster, with its part; an executor's is that of its worker."""
    return marked(MARK, cluster.folder)


def leaders(cluster: LocalCluster) -> dict[str, int]:
    """The processes that were started as parts: part -> process id. What they started themselves leads no session."""
    found = {}
    for process, part in ours(cluster):
        try:
            if os.getsid(process.pid) == process.pid:
                found[part] = process.pid
        except OSError:
            continue
    return found


def secret_of(pid: int) -> str:
    """The secret that a part was started with."""
    try:
        return psutil.Process(pid).environ().get(SECRET_VARIABLE, "")
    except psutil.Error:
        return ""


def _command(cluster: LocalCluster, part: str, choices: Choices) -> tuple[str, ...]:
    start = (str(spark_home() / "bin" / "spark-class"),)
    if part == MASTER:
        options = ("--host", HOST, "--port", str(cluster.port), "--webui-port", str(cluster.ui_port))
        return (*start, "org.apache.spark.deploy.master.Master", *options)
    own = ("--host", HOST, "--port", "0", "--webui-port", "0", "--work-dir", str(cluster.work(part)))
    gives = ("--cores", str(choices.cores), "--memory", choices.memory)
    return (*start, "org.apache.spark.deploy.worker.Worker", *own, *gives, cluster.master)


def _environment(cluster: LocalCluster, part: str) -> dict[str, str]:
    """The caller's, without what would lead Spark elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return kept | {
        MARK: mark_of(part, cluster.folder),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(cluster.config),
        "SPARK_DAEMON_MEMORY": HEAP,
        # The pages of master and workers would be open to other machines otherwise.
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(cluster.work(part) / "spill"),
        # Spark hands it on to executors in the same way: it is never on a command line or in a file.
        SECRET_VARIABLE: cluster.secret,
    }


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent
