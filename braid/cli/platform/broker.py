"""`braid broker start|stop|status`: the embedded Kafka broker, or several as one cluster."""

from dataclasses import asdict

import typer

from braid.cli.output import Json, console, failed, print_json, print_table
from braid.infra import brokers
from braid.runtime.settings import current_settings

broker = typer.Typer(
    no_args_is_help=True,
    help="The embedded Kafka broker on 127.0.0.1, data under BRAID_HOME: one node, or BRAID_KAFKA_NODES of them.",
)


def register(app: typer.Typer) -> None:
    app.add_typer(broker, name="broker")


@broker.command()
def start() -> None:
    """Start the broker and wait until it answers. Its data survives restarts. Already running: nothing to do.

    With BRAID_KAFKA_NODES=3 it is three, with three copies of each topic; the loss of any one loses nothing. What is
    missing of them is started.

    Example: `braid broker start && braid broker status`
    """
    settings = current_settings()
    settings.make_home()
    present = brokers.start(brokers.embedded_cluster(settings), say=console.print)
    for node in present.nodes:
        console.print(f"the broker answers on {node.bootstrap} (process {node.pid})")


@broker.command()
def stop() -> None:
    """Stop the broker cleanly. Not running: nothing to do."""
    stopped = brokers.stop(brokers.embedded_cluster(current_settings()))
    console.print("the broker has stopped" if stopped else "the broker was not running")


@broker.command()
def status(json: Json = False) -> None:
    """Say whether the broker runs and answers, node by node. Exit code 1 when one does not."""
    present = brokers.status(brokers.embedded_cluster(current_settings()))
    if json:
        print_json(asdict(present))
    else:
        columns = ("running", "answers", "pid", "bootstrap", "data")
        rows = ([getattr(node, column) for column in columns] for node in present.nodes)
        print_table(f"broker (cluster {present.cluster_id or 'not formatted yet'})", columns, rows)
    if not present.answers:
        raise failed(json, "the broker does not answer: `braid broker start` starts what is missing.")
