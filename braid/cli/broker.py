"""`braid broker start|stop|status`: the embedded Kafka broker."""

import typer

from braid.cli.output import Json, console, print_json, print_table
from braid.errors import CheckFailed
from braid.settings import current_settings
from infra import broker as embedded

broker = typer.Typer(
    no_args_is_help=True, help="The embedded Kafka broker: one node on 127.0.0.1, data under BRAID_HOME."
)


def register(app: typer.Typer) -> None:
    app.add_typer(broker, name="broker")


@broker.command()
def start() -> None:
    """Start the broker and wait until it answers. Its data survives restarts. Already running: nothing to do.

    Example: `braid broker start && braid broker status`
    """
    present = embedded.start(embedded.embedded_broker(current_settings()), say=console.print)
    console.print(f"the broker answers on {present.bootstrap} (process {present.pid})")


@broker.command()
def stop() -> None:
    """Stop the broker cleanly. Not running: nothing to do."""
    stopped = embedded.stop(embedded.embedded_broker(current_settings()))
    console.print("the broker has stopped" if stopped else "the broker was not running")


@broker.command()
def status(json: Json = False) -> None:
    """Say whether the broker runs and answers. Exit code 1 when it does not."""
    present = embedded.status(embedded.embedded_broker(current_settings()))
    if json:
        print_json(present.as_dict())
    else:
        print_table("broker", ("what", "value"), present.as_dict().items())
    if not present.answers:
        raise (
            typer.Exit(1)
            if json
            else CheckFailed("the broker does not answer: `braid broker start` starts it.")
        )
