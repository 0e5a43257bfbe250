"""The embedded Kafka broker: one KRaft node on this machine, its data under BRAID_HOME.

A broker is recognised by its command line, which names its own configuration file: there is no file with
a process id to go stale or to be lost. It is known to answer when the cluster id at its port is its own.
"""

import fcntl
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from braid.errors import BraidError, SettingsError
from braid.installation import jars
from braid.settings import Settings
from infra.preflight import check_java, java_command

HOST = "127.0.0.1"
HEAP = ("-Xms256m", "-Xmx512m")
START_TIMEOUT = 60.0
STOP_TIMEOUT = 30.0


@dataclass(frozen=True)
class Broker:
    """Where one embedded broker lives."""

    folder: Path
    port: int
    controller_port: int

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"


@dataclass(frozen=True)
class Status:
    """What is known of a broker: `answers` means that it, and not somebody else, serves its port."""

    running: bool
    answers: bool
    pid: int | None
    bootstrap: str
    cluster_id: str | None
    data: str

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def embedded_broker(settings: Settings) -> Broker:
    """The broker of these settings; refused where BRAID_KAFKA_BOOTSTRAP names another one."""
    if not settings.uses_embedded_broker:
        raise SettingsError(
            f"BRAID_KAFKA_BOOTSTRAP={settings.kafka_bootstrap} names a broker that Braid does not run: unset it "
            "to use the embedded one."
        )
    return Broker(settings.local_home() / "broker", settings.kafka_port, settings.kafka_controller_port)


def server_properties(broker: Broker) -> str:
    """Kafka's configuration for a single node that keeps what it acknowledged and stamps arrival itself."""
    listeners = f"PLAINTEXT://{HOST}:{broker.port},CONTROLLER://{HOST}:{broker.controller_port}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{broker.controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://{HOST}:{broker.port}",
        "log.dirs": broker.folder / "data",
        "log.message.timestamp.type": "LogAppendTime",
        # One copy is all a single node can keep.
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        # A topic that nobody created is a typing mistake, and ingest says so.
        "auto.create.topics.enable": "false",
        # History is replayed from the log, not from here, but a stopped ingest must find a week later what it missed.
        "log.retention.hours": 168,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def start(broker: Broker, say: Callable[[str], None] = lambda text: None) -> Status:
    """Starts the broker and waits until it answers; does nothing when it already does."""
    broker.folder.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(broker):
        process = _process(broker)
        if process is not None:
            return _wait_until_it_answers(broker, process)
        java = check_java()
        if not java.ok:
            raise BraidError(f"the broker cannot start: {java.detail}. {java.fix}")
        _refuse_taken_ports(broker)
        broker.config.write_text(server_properties(broker))
        if _cluster_id(broker) is None:
            say("formatting the broker's storage")
            _storage_tool("format", "-t", _storage_tool("random-uuid").strip(), "-c", str(broker.config))
        say(f"starting the broker on {broker.bootstrap}")
        child = _spawn(broker)
        try:
            return _wait_until_it_answers(broker, psutil.Process(child.pid))
        except BaseException:
            # Also on Ctrl-C: what was started here and does not answer must not stay behind.
            child.kill()
            child.wait()
            raise


def stop(broker: Broker) -> bool:
    """Stops the broker cleanly; whether there was one to stop."""
    process = _process(broker)
    if process is None:
        return False
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except psutil.TimeoutExpired:
        # What it acknowledged is on disk, and it recovers its log at the next start.
        process.kill()
        process.wait(STOP_TIMEOUT)
    return True


def status(broker: Broker) -> Status:
    process = _process(broker)
    cluster_id = _cluster_id(broker)
    return Status(
        running=process is not None,
        answers=process is not None
        and cluster_id is not None
        and answering_cluster(broker.bootstrap) == cluster_id,
        pid=process.pid if process else None,
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


def port_is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False


def _refuse_taken_ports(broker: Broker) -> None:
    ports = (("BRAID_KAFKA_PORT", broker.port), ("BRAID_KAFKA_CONTROLLER_PORT", broker.controller_port))
    for setting, port in ports:
        if port_is_taken(port):
            raise BraidError(
                f"port {port} on {HOST} is taken by another process: stop that one, or choose another port "
                f"with {setting}."
            )


def _spawn(broker: Broker) -> "subprocess.Popen[bytes]":
    with broker.log.open("wb") as log:
        return subprocess.Popen(
            _java("kafka.Kafka", str(broker.config), heap=HEAP),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=broker.folder, start_new_session=True,
        )  # fmt: skip


@contextmanager
def _one_at_a_time(broker: Broker) -> Iterator[None]:
    """Two starts at the same moment would both see a free port."""
    with (broker.folder / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _wait_until_it_answers(broker: Broker, process: psutil.Process) -> Status:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and _is_alive(process):
        present = status(broker)
        if present.answers:
            return present
        time.sleep(0.1)
    raise BraidError(
        f"the broker (process {process.pid}) does not answer on {broker.bootstrap}. {_last_words(broker)}"
    )


def _last_words(broker: Broker) -> str:
    lines = broker.log.read_text(errors="replace").splitlines() if broker.log.exists() else []
    errors = [line for line in lines[-200:] if re.search(r"ERROR|Exception", line)]
    reason = f"Its last error: {errors[-1].strip()} " if errors else ""
    return f"{reason}Its log is {broker.log}."


def _process(broker: Broker) -> psutil.Process | None:
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if command[-2:] == ["kafka.Kafka", str(broker.config)] and _is_alive(process):
            return process
    return None


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _cluster_id(broker: Broker) -> str | None:
    try:
        text = (broker.folder / "data" / "meta.properties").read_text()
    except OSError:
        return None
    found = re.search(r"^cluster\.id=(.+)$", text, re.MULTILINE)
    return found[1] if found else None


def _java(main_class: str, *arguments: str, heap: tuple[str, ...] = ()) -> list[str]:
    return [java_command(), *heap, "-cp", str(jars("kafka")[0].parent / "*"), main_class, *arguments]


def _storage_tool(*arguments: str) -> str:
    answer = subprocess.run(
        _java("kafka.tools.StorageTool", *arguments), capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise BraidError(f"the broker's storage cannot be prepared: {answer.stderr.strip()}")
    return answer.stdout
