"""The embedded brokers as one cluster: one node, or three of which any one may be lost."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from braid.errors import BraidError, SettingsError
from braid.infra import broker as embedded
from braid.infra.broker import Broker
from braid.runtime.settings import Settings


@dataclass(frozen=True)
class Brokers:
    """The nodes, each with a folder and two ports of its own."""

    nodes: tuple[Broker, ...]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)


@dataclass(frozen=True)
class BrokersStatus:
    """`running` means that any node does; `answers`, that all of them do."""

    running: bool
    answers: bool
    bootstrap: str
    cluster_id: str | None
    nodes: tuple[embedded.BrokerStatus, ...]


def embedded_cluster(settings: Settings) -> Brokers:
    """The brokers of these settings; refused where BRAID_KAFKA_BOOTSTRAP names others."""
    if not settings.uses_embedded_broker:
        raise SettingsError(
            f"BRAID_KAFKA_BOOTSTRAP={settings.kafka_bootstrap} names a broker that Braid does not run: unset it "
            "to use the embedded one."
        )
    home, count = settings.local_home(), settings.kafka_nodes
    return make_cluster(
        [home / ("broker" if number == 0 else f"broker-{number + 1}") for number in range(count)],
        [settings.kafka_port + 2 * number for number in range(count)],
        [settings.kafka_controller_port + 2 * number for number in range(count)],
    )


def make_cluster(folders: list[Path], ports: list[int], controller_ports: list[int]) -> Brokers:
    taken = [*ports, *controller_ports]
    if len(set(taken)) < len(taken):
        raise SettingsError(
            f"BRAID_KAFKA_PORT={ports[0]} and BRAID_KAFKA_CONTROLLER_PORT={controller_ports[0]} give {len(ports)} "
            f"nodes the same port twice ({', '.join(map(str, taken))}): choose neighbours, or ports further apart."
        )
    quorum = tuple(controller_ports) if len(ports) > 1 else ()
    places = zip(folders, ports, controller_ports, range(1, len(ports) + 1), strict=True)
    return Brokers(tuple(Broker(*place, quorum=quorum) for place in places))


def start(cluster: Brokers, say: Callable[[str], None] = lambda text: None) -> BrokersStatus:
    """Starts the nodes that do not run and waits until all answer: none does before a majority runs."""
    known = {embedded.cluster_id_of(node) for node in cluster.nodes} - {None}
    if len(known) > 1:
        raise BraidError(
            f"the nodes' folders hold data of different clusters ({', '.join(sorted(map(str, known)))}): move those "
            "away that do not belong together: " + ", ".join(str(node.folder) for node in cluster.nodes) + "."
        )
    # All of them are formatted with one id: with different ones they would not let each other in.
    shared = next(iter(known), None) or embedded.new_cluster_id()
    with ExitStack() as starting:
        started = [starting.enter_context(embedded.launching(node, say, shared)) for node in cluster.nodes]
        for node, children in zip(cluster.nodes, started, strict=True):
            embedded.wait_until_it_answers(node, children)
    return status(cluster)


def stop(cluster: Brokers) -> bool:
    """Stops all nodes side by side, so that none waits for a majority that is gone; whether there was one to stop."""
    return embedded.stop_all(cluster.nodes)


def status(cluster: Brokers) -> BrokersStatus:
    nodes = tuple(embedded.status(node) for node in cluster.nodes)
    return BrokersStatus(
        running=any(node.running for node in nodes),
        answers=all(node.answers for node in nodes),
        bootstrap=cluster.bootstrap,
        cluster_id=next((node.cluster_id for node in nodes if node.cluster_id), None),
        nodes=nodes,
    )
