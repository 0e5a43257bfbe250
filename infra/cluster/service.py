"""A Spark standalone cluster on this machine: a master and workers, each a process of its own, on 127.0.0.1."""

import json
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from braid.errors import BraidError
from infra.cluster.files import HOST, Choices, LocalCluster
from infra.cluster.processes import (
    MASTER,
    leaders,
    ours,
    secret_of,
    spawn,
    workers,
)
from infra.kafka.broker import port_is_taken
from infra.preflight import check_java
from infra.services.marked import end
from infra.services.starting import healthy_in_time, last_words, one_at_a_time

if TYPE_CHECKING:
    import subprocess

DEFAULT = Choices(workers=2, cores=2, memory="4g")
START_TIMEOUT = 60.0
# Never through a proxy: it is on this machine.
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

Say = Callable[[str], None]


@dataclass(frozen=True)
class Status:
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

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def start(cluster: LocalCluster, say: Say = lambda text: None, **asked: Any) -> Status:
    """Starts what does not run, and waits until every worker is at the master; does nothing when all runs.

    What is not asked for is as it was started, else as by default.
    """
    cluster.folder.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(cluster.folder):
        running = leaders(cluster)
        choices = _agreed(cluster, asked, running)
        java = check_java()
        if not java.ok:
            raise BraidError(f"the cluster cannot start: {java.detail}. {java.fix}")
        if MASTER not in running:
            _refuse_taken_ports(cluster)
        cluster.prepare(choices)
        missing = [part for part in (MASTER, *workers(choices)) if part not in running]
        if missing:
            say(f"starting {', '.join(missing)} of the cluster at {cluster.master}")
        children: dict[str, subprocess.Popen[bytes]] = {}
        try:
            for part in missing:
                children[part] = spawn(cluster, part, choices)
            return _wait_until_healthy(cluster, children)
        except BaseException:
            # Also on Ctrl-C: what was started here and does not answer must not stay behind.
            for child in children.values():
                child.kill()
                child.wait()
            raise


def stop(cluster: LocalCluster) -> bool:
    """Ends the cluster with the executors that it runs; whether there was anything to end."""
    found = ours(cluster)
    # Workers first: they end their executors, and a master that is left alone ends at once.
    end(process for process, part in found if part != MASTER)
    end(process for process, _ in ours(cluster))
    cluster.forget()
    return bool(found)


def status(cluster: LocalCluster) -> Status:
    running = leaders(cluster)
    choices = cluster.choices
    wanted = (MASTER, *(workers(choices) if choices else ()))
    seen = _ask(cluster) if MASTER in running else {}
    alive = [worker for worker in seen.get("workers", ()) if worker["state"] == "ALIVE"]
    return Status(
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
        authenticated=MASTER in running and bool(secret_of(running[MASTER])),
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
    if any(secret_of(pid) != cluster.secret for pid in running.values()):
        raise BraidError(
            "the cluster runs already with another BRAID_SPARK_SECRET: set that one, or end the cluster with `braid "
            "cluster stop` and start it with this one."
        )
    return present


def _refuse_taken_ports(cluster: LocalCluster) -> None:
    for setting, port in (("BRAID_CLUSTER_PORT", cluster.port), ("BRAID_CLUSTER_UI_PORT", cluster.ui_port)):
        if port_is_taken(port):
            raise BraidError(
                f"port {port} on {HOST} is taken by another process: stop that one, or choose another port with "
                f"{setting}."
            )


def _wait_until_healthy(cluster: LocalCluster, children: "Mapping[str, subprocess.Popen[bytes]]") -> Status:
    found = healthy_in_time(lambda: status(cluster), START_TIMEOUT, "the cluster's", children, cluster.log)
    if found is None:
        raise BraidError(
            f"the cluster at {cluster.master} has not got all its workers after {START_TIMEOUT:.0f} s. "
            f"{last_words(cluster.log(MASTER))}"
        )
    return found


def _ask(cluster: LocalCluster) -> dict[str, Any]:
    """What the master says of itself; empty where nobody answers."""
    try:
        with _open(f"{cluster.address}/json/", timeout=5.0) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError):
        return {}
