"""One embedded Kafka broker: a KRaft node on this machine, alone or one of a cluster, its data under BRAID_HOME.

It is known to answer when the cluster id at its port is its own.
"""

import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from braid.errors import BraidError
from braid.infra.preflight import java_command
from braid.infra.services.service import HOST, Children, Service, end, killed_on_failure, refuse_taken_ports
from braid.runtime.installation import jars

PART = "broker"
HEAP = ("-Xms256m", "-Xmx512m")
START_TIMEOUT = 60.0


@dataclass(frozen=True)
class Broker(Service):
    """Where one embedded broker lives, its number in its cluster, and the controllers' ports of all its nodes."""

    title = "the broker"
    mark = "BROKER_OF_BRAID"
    ends_last = PART

    port: int
    controller_port: int
    number: int = 1
    quorum: tuple[int, ...] = ()

    @property
    def voters(self) -> str:
        ports = self.quorum or (self.controller_port,)
        return ",".join(f"{number}@{HOST}:{port}" for number, port in enumerate(ports, start=1))

    @property
    def copies(self) -> int:
        """Of each record: three where there are as many nodes, so that one of them can be lost."""
        return min(len(self.quorum) or 1, 3)

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"


@dataclass(frozen=True)
class BrokerStatus:
    """What is known of a broker: `answers` means that it, and not somebody else, serves its port."""

    running: bool
    answers: bool
    pid: int | None
    bootstrap: str
    cluster_id: str | None
    data: str

    @property
    def healthy(self) -> bool:
        return self.answers


def server_properties(broker: Broker) -> str:
    """Kafka's configuration for a node that keeps what it acknowledged and stamps arrival itself."""
    # What is acknowledged is on so many nodes: two of three, or the only one.
    safe = max(broker.copies - 1, 1)
    listeners = f"PLAINTEXT://{HOST}:{broker.port},CONTROLLER://{HOST}:{broker.controller_port}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": broker.number,
        "controller.quorum.voters": broker.voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://{HOST}:{broker.port}",
        "log.dirs": broker.folder / "data",
        "log.message.timestamp.type": "LogAppendTime",
        "default.replication.factor": broker.copies,
        "min.insync.replicas": safe,
        "offsets.topic.replication.factor": broker.copies,
        "transaction.state.log.replication.factor": broker.copies,
        "transaction.state.log.min.isr": safe,
        "share.coordinator.state.topic.replication.factor": broker.copies,
        "share.coordinator.state.topic.min.isr": safe,
        # A topic that nobody created is a typing mistake, and ingest says so.
        "auto.create.topics.enable": "false",
        # History is replayed from the log, not from here, but a stopped ingest must find a week later what it missed.
        "log.retention.hours": 168,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def start(broker: Broker, say: Callable[[str], None] = lambda text: None) -> BrokerStatus:
    """Starts a broker that is a cluster of its own, and waits until it answers; nothing to do when it already does."""
    with launching(broker, say) as children:
        return wait_until_it_answers(broker, children)


@contextmanager
def launching(
    broker: Broker, say: Callable[[str], None] = lambda text: None, cluster_id: str | None = None
) -> Iterator[Children]:
    """The broker, started, for the block that waits until it answers: if that fails, what was started is ended."""
    with broker.starting():
        if broker.leaders():
            yield {}
            return
        broker.require_java()
        refuse_taken_ports(
            {"BRAID_KAFKA_PORT": broker.port, "BRAID_KAFKA_CONTROLLER_PORT": broker.controller_port}
        )
        _refuse_data_of_another_cluster(broker)
        broker.config.write_text(server_properties(broker))
        if cluster_id_of(broker) is None:
            say("formatting the broker's storage")
            storage_tool("format", "-t", cluster_id or new_cluster_id(), "-c", str(broker.config))
        say(f"starting the broker on {broker.bootstrap}")
        children = {PART: spawn(broker)}
        with killed_on_failure(children):
            yield children


def new_cluster_id() -> str:
    return storage_tool("random-uuid").strip()


def stop(broker: Broker) -> bool:
    """Stops the broker cleanly; whether there was one to stop."""
    return stop_all([broker])


def stop_all(brokers: Iterable[Broker]) -> bool:
    """Stops them side by side; whether there was one to stop.

    One that has to be killed has on disk what it acknowledged, and recovers its log at the next start.
    """
    found = [process for broker in brokers for process, _ in broker.processes()]
    end(found)
    return bool(found)


def status(broker: Broker) -> BrokerStatus:
    pid = broker.leaders().get(PART)
    cluster_id = cluster_id_of(broker)
    return BrokerStatus(
        running=pid is not None,
        answers=pid is not None
        and cluster_id is not None
        and answering_cluster(broker.bootstrap) == cluster_id,
        pid=pid,
        bootstrap=broker.bootstrap,
        cluster_id=cluster_id,
        data=str(broker.folder / "data"),
    )


def answering_cluster(bootstrap: str, timeout: float = 2.0) -> str | None:
    """The id of the cluster that answers at this address, or None."""
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
    try:
        # A plain connect first: a client of Kafka's would wait and log where nobody listens.
        socket.create_connection((host, int(port)), timeout=timeout).close()
        admin = KafkaAdminClient(
            bootstrap_servers=bootstrap,
            request_timeout_ms=int(timeout * 1000),
            bootstrap_timeout_ms=int(timeout * 1000),
        )
    except (OSError, ValueError, KafkaError):
        return None
    try:
        return str(admin.describe_cluster()["cluster_id"])
    except (KafkaError, KeyError):
        return None
    finally:
        admin.close()


def _refuse_data_of_another_cluster(broker: Broker) -> None:
    """A cluster of another size would not find the copies that it expects, nor a majority."""
    if cluster_id_of(broker) is None or not broker.config.exists():
        return
    known = re.search(r"^controller\.quorum\.voters=(.*)$", broker.config.read_text(), re.MULTILINE)
    before, now = (len(voters.split(",")) for voters in (known[1] if known else "", broker.voters))
    if before != now:
        raise BraidError(
            f"{broker.folder} holds the data of a cluster of {before} and BRAID_KAFKA_NODES={now} is another: set it "
            f"back, or set BRAID_HOME to another folder, or move {broker.folder} away to begin with an empty broker."
        )


def spawn(broker: Broker) -> "subprocess.Popen[bytes]":
    return broker.spawn(PART, _java("kafka.Kafka", str(broker.config), heap=HEAP), os.environ)


def wait_until_it_answers(broker: Broker, children: Children) -> BrokerStatus:
    missing = f"does not answer on {broker.bootstrap}"
    return broker.wait(lambda: status(broker), children, START_TIMEOUT, missing)


def cluster_id_of(broker: Broker) -> str | None:
    try:
        text = (broker.folder / "data" / "meta.properties").read_text()
    except OSError:
        return None
    found = re.search(r"^cluster\.id=(.+)$", text, re.MULTILINE)
    return found[1] if found else None


def _java(main_class: str, *arguments: str, heap: tuple[str, ...] = ()) -> list[str]:
    return [java_command(), *heap, "-cp", str(jars("kafka")[0].parent / "*"), main_class, *arguments]


def storage_tool(*arguments: str) -> str:
    answer = subprocess.run(
        _java("kafka.tools.StorageTool", *arguments), capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise BraidError(f"the broker's storage cannot be prepared: {answer.stderr.strip()}")
    return answer.stdout
