"""A Spark standalone cluster on this machine: a master and workers, each a process of its own, on 127.0.0.1."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from braid.errors import BraidError
from braid.infra.cluster_files import MASTER, Choices, LocalCluster
from braid.infra.services.service import HOST, killed_on_failure, open_local, refuse_taken_ports
from braid.runtime.spark_cluster import SECRET_VARIABLE

DEFAULT = Choices(workers=2, cores=2, memory="4g")
# What a master or a worker needs itself; executors have memory of their own.
HEAP = "256m"
START_TIMEOUT = 60.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class SparkClusterStatus:
    """What is known of a cluster: `healthy` means that its master answers and has all workers that were asked for."""

    healthy: bool
    master: str
    pages: str
    processes: dict[str, int | None]
    workers_alive: int
    cores: int
    cores_used: int
    memory_mib: int
    memory_used_mib: int
    applications: tuple[str, ...]
    authenticated: bool


def start(cluster: LocalCluster, say: Say = lambda text: None, **asked: Any) -> SparkClusterStatus:
    """Starts what does not run, and waits until every worker is at the master; does nothing when all runs.

    What is not asked for is as it was started, else as by default.
    """
    with cluster.starting():
        running = cluster.leaders()
        choices = _agreed(cluster, asked, running)
        cluster.require_java()
        if MASTER not in running:
            refuse_taken_ports({"BRAID_CLUSTER_PORT": cluster.port, "BRAID_CLUSTER_UI_PORT": cluster.ui_port})
        cluster.prepare(choices)
        missing = [part for part in choices.parts if part not in running]
        if missing:
            say(f"starting {', '.join(missing)} of the cluster at {cluster.master}")
        children: dict[str, subprocess.Popen[bytes]] = {}
        with killed_on_failure(children):
            for part in missing:
                shutil.rmtree(cluster.work(part), ignore_errors=True)
                children[part] = cluster.spawn(
                    part, _command(cluster, part, choices), _environment(cluster, part)
                )
            missing_workers = f"at {cluster.master} has not got all its workers"
            return cluster.wait(lambda: status(cluster), children, START_TIMEOUT, missing_workers)


def stop(cluster: LocalCluster) -> bool:
    """Ends the cluster with the executors that it runs; whether there was anything to end."""
    ended = cluster.end()
    cluster.forget()
    return ended


def status(cluster: LocalCluster) -> SparkClusterStatus:
    running = cluster.leaders()
    choices = cluster.choices
    wanted = choices.parts if choices else (MASTER,)
    seen = _ask(cluster) if MASTER in running else {}
    alive = [worker for worker in seen.get("workers", ()) if worker["state"] == "ALIVE"]
    return SparkClusterStatus(
        healthy=seen.get("status") == "ALIVE"
        and choices is not None
        and len(alive) == choices.workers
        and all(part in running for part in wanted),
        master=cluster.master,
        pages=cluster.address,
        processes={part: running.get(part) for part in wanted},
        workers_alive=len(alive),
        cores=sum(worker["cores"] for worker in alive),
        cores_used=sum(worker["coresused"] for worker in alive),
        memory_mib=sum(worker["memory"] for worker in alive),
        memory_used_mib=sum(worker["memoryused"] for worker in alive),
        applications=tuple(
            f"{app['name']} ({app['state'].lower()}, {app['cores']} cores)"
            for app in seen.get("activeapps", ())
        ),
        authenticated=MASTER in running and bool(_secret_of(running[MASTER])),
    )


def _agreed(cluster: LocalCluster, asked: Mapping[str, Any], running: Mapping[str, int]) -> Choices:
    """What to start: a cluster that runs is completed, and never changed."""
    present = cluster.choices if running else None
    choices = replace(present or DEFAULT, **asked)
    if present is None:
        # What is left of one that nobody can tell the choices of would not fit the new one.
        stop(cluster)
        return choices
    if choices != present:
        raise BraidError(
            f"the cluster runs already with {present}: `braid cluster stop` ends it, and then it can be started with "
            f"{choices}."
        )
    if any(_secret_of(pid) != cluster.secret for pid in running.values()):
        raise BraidError(
            "the cluster runs already with another BRAID_SPARK_SECRET: set that one, or end the cluster with `braid "
            "cluster stop` and start it with this one."
        )
    return present


def _secret_of(pid: int) -> str:
    """The secret that a part was started with."""
    try:
        return psutil.Process(pid).environ().get(SECRET_VARIABLE, "")
    except psutil.Error:
        return ""


def _command(cluster: LocalCluster, part: str, choices: Choices) -> tuple[str, ...]:
    start = (str(_spark_home() / "bin" / "spark-class"),)
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
        "SPARK_HOME": str(_spark_home()),
        "SPARK_CONF_DIR": str(cluster.config),
        "SPARK_DAEMON_MEMORY": HEAP,
        # The pages of master and workers would be open to other machines otherwise.
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(cluster.work(part) / "spill"),
        # Spark hands it on to executors in the same way: it is never on a command line or in a file.
        SECRET_VARIABLE: cluster.secret,
    }


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _ask(cluster: LocalCluster) -> dict[str, Any]:
    """What the master says of itself; empty where nobody answers."""
    try:
        with open_local(f"{cluster.address}/json/", timeout=5.0) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError):
        return {}
